"""A policy gradient through an ensemble of neural models of the plant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from nopg._seeding import generator
from nopg.baselines._d3rlpy import isolated
from nopg.data import Transitions
from nopg.errors import DataError

# Rows per model and gradient step of the models; rollouts per model and gradient step of the policy; Adam's
# rate; how far rollouts may leave the logged range of a state, as a share of the range.
_MODEL_ROWS, _ROLLOUTS, _RATE, _MARGIN = 128, 24, 3e-3, 0.1


@dataclass(frozen=True, slots=True)
class NeuralConfig:
    """Settings, chosen on development plants.

    Attributes:
        members: Number of models in the ensemble.
        hidden: Units in each of the two hidden layers of every network.
        model_updates: Gradient steps of the models.
        policy_updates: Gradient steps of the policy.
        rollout: Steps of a rollout through the models.
    """

    members: int = 5
    hidden: int = 64
    model_updates: int = 4_000
    policy_updates: int = 600
    rollout: int = 50


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
        self.schema = data.schema
        self.feature_mean, self.feature_scale = _moments(data.features.float())
        self.action_low, self.action_high = data.actions.float().amin(0), data.actions.float().amax(0)
        moved = data.schema.difference(data.states, data.next_states)
        targets = torch.cat([moved, data.rewards[:, None]], 1).float()
        self.target_mean, self.target_scale = _moments(targets)
        self.ends = bool(data.terminated.any())

        room = _MARGIN * (data.states.amax(0) - data.states.amin(0))
        angular = torch.tensor([name in data.schema.angles for name in data.schema.states])
        self.state_low = torch.where(angular, -torch.inf, data.states.amin(0) - room).float()
        self.state_high = torch.where(angular, torch.inf, data.states.amax(0) + room).float()

        inputs = torch.cat([self.scaled(data.states.float()), self._unit(data.actions.float())], 1)
        sizes = (inputs.shape[1], config.hidden, config.hidden, targets.shape[1] + 1)
        self.networks = _Networks(config.members, sizes, rng)
        scaled, ended = (targets - self.target_mean) / self.target_scale, data.terminated.float()

        def loss() -> torch.Tensor:
            rows = torch.randint(len(inputs), (config.members, _MODEL_ROWS), generator=rng)
            out = self.networks(inputs[rows])
            missed: torch.Tensor = (out[..., :-1] - scaled[rows]).square().mean()
            if self.ends:
                missed = missed + nn.functional.binary_cross_entropy_with_logits(out[..., -1], ended[rows])
            return missed

        _minimise(loss, self.networks, config.model_updates)
        self.networks.requires_grad_(False)

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


def train_neural(
    data: Transitions, discount: float, *, seed: int = 0, config: NeuralConfig | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a network trained by back-propagation through rollouts of learned models.

    Each of a few networks predicts displacement, reward and end; every rollout follows one of them. Half of
    the rollouts start in logged states, half in the starts of the task. Actions stay within the logged range.
    """
    if data.weights is not None:
        raise DataError("neural models count every row once; give data without weights")
    config, rng = NeuralConfig() if config is None else config, generator(seed, "neural model")
    low, high, half = data.actions.amin(0), data.actions.amax(0), _ROLLOUTS // 2

    def actions(states: torch.Tensor) -> torch.Tensor:
        flat = models.scaled(states.reshape(1, -1, states.shape[-1]))
        spread = torch.tanh(policy(flat)).reshape(*states.shape[:-1], -1)
        least, most = models.action_low, models.action_high
        return (most + least) / 2 + (most - least) / 2 * spread

    def loss() -> torch.Tensor:
        draws = [
            pool[torch.randint(len(pool), (config.members, half), generator=rng)]
            for pool in (data.states, data.starts)
        ]
        states = torch.cat(draws, 1).float()
        total, alive = torch.zeros(states.shape[:-1]), torch.ones(states.shape[:-1])
        for t in range(config.rollout):
            states, rewards, ending = models.step(states, actions(states))
            total = total + discount**t * alive * rewards
            alive = alive * (1 - ending)
        return -total.mean() / models.target_scale[-1]

    with isolated(seed):
        models = Ensemble(data, config, rng)
        sizes = (len(models.feature_mean), config.hidden, config.hidden, data.actions.shape[1])
        policy = _Networks(1, sizes, rng)
        _minimise(loss, policy, config.policy_updates)

    def act(states: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return actions(states.float()).double().clamp(low, high)

    return act


def _moments(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    spread = values.std(0)
    return values.mean(0), torch.where(spread > 1e-9, spread, torch.ones_like(spread))


def _minimise(loss: Callable[[], torch.Tensor], networks: nn.Module, updates: int) -> None:
    """Take steps of Adam, the gradient no longer than 1, at a rate that falls to zero along a cosine."""
    optimizer = torch.optim.Adam(networks.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for _ in range(updates):
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(networks.parameters(), 1.0)
        optimizer.step()
        schedule.step()
