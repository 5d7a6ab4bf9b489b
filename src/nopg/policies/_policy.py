"""The one interface through which every policy is asked for actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import torch

from nopg._ranks import ALONE, Ranks

__all__ = ["ActionTape", "Policy", "policy_actions", "policy_gradient", "shared_noise", "trainable"]

# Activations of a chunk of this size stay in the cache.
_STATES_AT_ONCE = 8_192
# Of so many states the activations are kept from actions to gradient, some hundred bytes each.
_STATES_TAPED = 1 << 18


class Policy(torch.nn.Module, ABC):
    """Maps state features and noise to actions; deterministic and stochastic policies differ only here.

    Attributes:
        num_actions: d_a.
        num_action_samples: L, actions per state; 1 for a deterministic policy.
    """

    num_actions: int
    num_action_samples: int

    @abstractmethod
    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return actions (L, m, d_a) at features (m, d_f), reparameterised by noise (L, m, d_a)."""

    @abstractmethod
    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the action (m, d_a) to apply when the policy runs: the mean."""

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Draw the standard normal noise (L, m, d_a) that `actions` takes, where the generator is."""
        shape = (self.num_action_samples, num_states, self.num_actions)
        return torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)

    def progress(self, fraction: float) -> None:
        """Hear that this fraction of the training has passed; schedules inside a policy follow it."""


def trainable(policy: Policy) -> list[torch.nn.Parameter]:
    """Return the parameters that training changes, in their order."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def shared_noise(policy: Policy, num_states: int, rng: torch.Generator, ranks: Ranks = ALONE) -> torch.Tensor:
    """Draw the noise of this rank's states; the states of all ranks together get what one rank would draw."""
    if not ranks.several:
        return policy.noise(num_states, rng)
    counts = ranks.gather(torch.tensor([num_states])).tolist()
    parts: list[torch.Tensor] = list(policy.noise(sum(counts), rng).split(counts, dim=1))
    return parts[ranks.number]


def policy_actions(policy: Policy, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the actions (L, m, d_a) at all states, without a gradient tape."""
    with torch.no_grad():
        parts = [policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features))]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def policy_gradient(
    policy: Policy, features: torch.Tensor, noise: torch.Tensor, cotangent: torch.Tensor
) -> list[torch.Tensor]:
    """Return Σ cotangent · ∂actions/∂θ, one tensor per trainable parameter; memory as for one chunk.

    Args:
        policy: The policy.
        features: States, shape (m, d_f).
        noise: The noise the actions were computed with, shape (L, m, d_a).
        cotangent: The derivative of the objective by every action, shape (L, m, d_a).
    """
    outputs = (policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features)))
    return _pulled_back(policy, outputs, cotangent)


class ActionTape:
    """The actions of a policy at many states; of not too many, also what their gradient needs.

    Args:
        policy: The policy.
        features: States, shape (m, d_f).
        noise: Shape (L, m, d_a).

    Attributes:
        actions: Shape (L, m, d_a).
    """

    def __init__(self, policy: Policy, features: torch.Tensor, noise: torch.Tensor) -> None:
        self.policy, self.features, self.noise = policy, features, noise
        self._outputs: list[torch.Tensor] | None = None
        if len(features) * policy.num_action_samples > _STATES_TAPED:
            self.actions = policy_actions(policy, features, noise)
            return
        with torch.enable_grad():
            self._outputs = [
                policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features))
            ]
        self.actions = torch.cat([part.detach() for part in self._outputs], dim=1)

    def gradient(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        """Return Σ cotangent · ∂actions/∂θ; see `policy_gradient`."""
        outputs, self._outputs = self._outputs, None  # a tape runs once
        if outputs is None:
            return policy_gradient(self.policy, self.features, self.noise, cotangent)
        return _pulled_back(self.policy, outputs, cotangent)


def _pulled_back(
    policy: Policy, outputs: Iterable[torch.Tensor], cotangent: torch.Tensor
) -> list[torch.Tensor]:
    """Return the gradient of the parameters from actions chunk by chunk."""
    parameters = trainable(policy)
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    for rows, actions in zip(_chunks(cotangent.shape[1]), outputs, strict=True):
        parts = torch.autograd.grad(
            actions, parameters, cotangent[:, rows], allow_unused=True, materialize_grads=True
        )
        for total, part in zip(totals, parts, strict=True):
            total.add_(part)
    return totals


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), _STATES_AT_ONCE):
        yield slice(start, min(start + _STATES_AT_ONCE, count))
