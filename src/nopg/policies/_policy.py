"""The one interface through which every policy is asked for actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch

__all__ = ["Policy", "policy_actions", "policy_gradient"]

# Activations of a chunk of this size stay in the cache.
_STATES_AT_ONCE = 8_192


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
        """Draw the standard normal noise (L, m, d_a) that `actions` takes."""
        shape = (self.num_action_samples, num_states, self.num_actions)
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    def progress(self, fraction: float) -> None:
        """Hear that this fraction of the training has passed; schedules inside a policy follow it."""


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
    parameters = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    for rows in _chunks(len(features)):
        actions = policy.actions(features[rows], noise[:, rows])
        parts = torch.autograd.grad(
            actions, parameters, cotangent[:, rows], allow_unused=True, materialize_grads=True
        )
        for total, part in zip(totals, parts, strict=True):
            total.add_(part)
    return totals


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _STATES_AT_ONCE):
        yield slice(start, min(start + _STATES_AT_ONCE, count))
