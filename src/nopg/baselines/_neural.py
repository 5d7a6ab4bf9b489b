"""A policy gradient through an ensemble of neural models of the plant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from nopg._seeding import generator
from nopg.baselines._isolation import one_thread
from nopg.data import Transitions
from nopg.errors import DataError


@dataclass(frozen=True, slots=True)
class NeuralConfig:
    """Settings, chosen on development plants.

    Attributes:
        members: Number of models in the ensemble.
        hidden: Units in each of the two hidden layers of every network.
        model_updates: Gradient steps of the models.
        policy_updates: Gradient steps of the policy.
        rollout: Steps of a rollout through the models.
        batch: Rollouts per model and gradient step of the policy.
        model_rows: Rows per model and gradient step of the models.
        learning_rate: Adam's, of models and policy; it falls to zero along a cosine.
        margin: How far rollouts may leave the logged range of a state, as a share of the range.
    """

    members: int = 5
    hidden: int = 64
    model_updates: int = 4_000
    policy_updates: int = 600
    rollout: int = 50
    batch: int = 24
    model_rows: int = 128
    learning_rate: float = 3e-3
    margin: float = 0.1


class _Networks(nn.Module):
    """As many networks as members, evaluated at once: inputs (members, m, d_in) to outputs."""

    def __init__(self, members: int, sizes: tuple[int, ...], rng: torch.Generator) -> None:
        super().__init__()
        pairs = list(pairwise(sizes))
        draws = [(2 * torch.rand(members, *pair, generator=rng) - 1) * pair[0] ** -0.5 for pair in pairs]
        self.weights = nn.ParameterList([nn.Parameter(draw) for draw in draws])
        self.offsets = nn.ParameterList([nn.Parameter(torch.zeros(members, 1, out)) for _, out in pairs])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the outputs (members, m, d_out)."""
        hidden = inputs
        for k, (weight, offset) in enumerate(zip(self.weights, self.offsets, strict=True)):
            hidden = torch.baddbmm(offset, nn.functional.silu(hidden) if k else hidden, weight)
        return hidden


class Ensemble:
    """The ensemble: predicts displacement, reward and the probability that the episode ends."""

    def __init__(self, data: Transitions, config: NeuralConfig, rng: torch.Generator) -> None:
        self.schema, self.config, self.rng = data.schema, config, rng
        self.feature_mean, self.feature_scale = _moments(data.features.float())
        self.action_low, self.action_high = data.actions.float().amin(0), data.actions.float().amax(0)
        moved = data.schema.difference(data.states, data.next_states)
        targets = torch.cat([moved, data.rewards[:, None]], 1).float()
        self.target_mean, self.target_scale = _moments(targets)
        self.ends = bool(data.terminated.any())

        room = config.margin * (data.states.amax(0) - data.states.amin(0))
        angular = torch.tensor([name in data.schema.angles for name in data.schema.states])
        self.state_low = torch.where(angular, -torch.inf, data.states.amin(0) - room).float()
        self.state_high = torch.where(angular, torch.inf, data.states.amax(0) + room).float()

        inputs = torch.cat([self.scaled(data.states.float()), self._unit(data.actions.float())], 1)
        sizes = (inputs.shape[1], config.hidden, config.hidden, targets.shape[1] + 1)
        self.networks = _Networks(config.members, sizes, rng)
        self._fit(inputs, (targets - self.target_mean) / self.target_scale, data.terminated.float())

    def scaled(self, states: torch.Tensor) -> torch.Tensor:
        """Return the standardised features of raw states."""
        return (self.schema.encode(states) - self.feature_mean) / self.feature_scale

    def step(
        self, states: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return next states, rewards and probabilities of an end; every member moves its own rows."""
        out = self.networks(torch.cat([self.scaled(states), self._unit(actions)], -1))
        moves = self.target_mean + self.target_scale * out[..., :-1]
        following = (states + moves[..., :-1]).clamp(self.state_low, self.state_high)
        ending = out[..., -1].sigmoid() if self.ends else torch.zeros_like(out[..., -1])
        return following, moves[..., -1], ending

    def _unit(self, actions: torch.Tensor) -> torch.Tensor:
        return 2 * (actions - self.action_low) / (self.action_high - self.action_low).clamp(min=1e-9) - 1

    def _fit(self, inputs: torch.Tensor, targets: torch.Tensor, ended: torch.Tensor) -> None:
        config, count = self.config, (self.config.members, self.config.model_rows)
        optimizer, schedule = _adam(self.networks, config.learning_rate, config.model_updates)
        for _ in range(config.model_updates):
            rows = torch.randint(len(inputs), count, generator=self.rng)
            out = self.networks(inputs[rows])
            loss = (out[..., :-1] - targets[rows]).square().mean()
            if self.ends:
                loss = loss + nn.functional.binary_cross_entropy_with_logits(out[..., -1], ended[rows])
            _descend(loss, self.networks, optimizer, schedule)
        self.networks.requires_grad_(False)


def train_neural(
    data: Transitions, discount: float, *, seed: int = 0, config: NeuralConfig | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a network trained by back-propagation through rollouts of learned models.

    Each of a few networks predicts displacement, reward and end; every rollout follows one of them. Half of
    the rollouts start in logged states, half in the starts of the task. Actions stay within the logged range.

    Args:
        data: The transitions.
        discount: γ.
        seed: Seed of everything random.
        config: Settings.
    """
    if data.weights is not None:
        raise DataError("neural models count every row once; give data without weights")
    with one_thread():
        return _trained(data, discount, NeuralConfig() if config is None else config, seed)


def _trained(
    data: Transitions, discount: float, config: NeuralConfig, seed: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    rng = generator(seed, "neural model")
    models = Ensemble(data, config, rng)
    sizes = (len(models.feature_mean), config.hidden, config.hidden, data.actions.shape[1])
    policy = _Networks(1, sizes, rng)
    middle, half = (models.action_high + models.action_low) / 2, (models.action_high - models.action_low) / 2

    def actions(states: torch.Tensor) -> torch.Tensor:
        flat = models.scaled(states.reshape(1, -1, states.shape[-1]))
        return middle + half * torch.tanh(policy(flat)).reshape(*states.shape[:-1], -1)

    optimizer, schedule = _adam(policy, config.learning_rate, config.policy_updates)
    for _ in range(config.policy_updates):
        states = _drawn(data, config, rng)
        total, alive = torch.zeros(states.shape[:-1]), torch.ones(states.shape[:-1])
        for t in range(config.rollout):
            states, rewards, ending = models.step(states, actions(states))
            total = total + discount**t * alive * rewards
            alive = alive * (1 - ending)
        _descend(-total.mean() / models.target_scale[-1], policy, optimizer, schedule)

    def act(states: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return actions(states.float()).double().clamp(data.actions.amin(0), data.actions.amax(0))

    return act


def _drawn(data: Transitions, config: NeuralConfig, rng: torch.Generator) -> torch.Tensor:
    """Return states (members, batch, d_s) from which rollouts start."""
    half = config.batch // 2
    pools = ((data.states, config.batch - half), (data.starts, half))
    draws = [pool[torch.randint(len(pool), (config.members, count), generator=rng)] for pool, count in pools]
    return torch.cat(draws, 1).float()


def _moments(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    spread = values.std(0)
    return values.mean(0), torch.where(spread > 1e-9, spread, torch.ones_like(spread))


def _adam(
    networks: nn.Module, rate: float, updates: int
) -> tuple[torch.optim.Adam, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.Adam(networks.parameters(), lr=rate)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)


def _descend(
    loss: torch.Tensor,
    networks: nn.Module,
    optimizer: torch.optim.Adam,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Take one step of Adam, the gradient no longer than 1."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(networks.parameters(), 1.0)
    optimizer.step()
    schedule.step()
