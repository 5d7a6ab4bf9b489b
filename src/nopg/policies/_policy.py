"""The interface of policies, and their actions and gradients at many states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch

# The activations of a chunk of this size fit into the cache.
_CHUNK = 8_192


class Policy(torch.nn.Module, ABC):
    """A map from state features and noise to actions, for deterministic and stochastic policies.

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
        """Return the action (m, d_a) to apply on the plant: the mean."""

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Draw the standard normal noise (L, m, d_a) of `actions`, on the device of the generator."""
        shape = (self.num_action_samples, num_states, self.num_actions)
        return torch.randn(shape, generator=rng, dtype=torch.float64, device=rng.device)


def trainable(policy: Policy) -> list[torch.nn.Parameter]:
    """Return the trainable parameters, in order."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def policy_actions(policy: Policy, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the actions (L, m, d_a) at all states, without autograd."""
    with torch.no_grad():
        parts = [policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features))]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def policy_gradient(
    policy: Policy, features: torch.Tensor, noise: torch.Tensor, cotangent: torch.Tensor
) -> list[torch.Tensor]:
    """Return Σ cotangent · ∂actions/∂θ, one tensor per trainable parameter, in the memory of one chunk.

    Args:
        policy: The policy.
        features: States, shape (m, d_f).
        noise: The noise of the actions, shape (L, m, d_a).
        cotangent: The derivative of the objective by every action, shape (L, m, d_a).
    """
    parameters = trainable(policy)
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    for rows in _chunks(len(features)):
        with torch.enable_grad():
            actions = policy.actions(features[rows], noise[:, rows])
        parts = torch.autograd.grad(
            actions, parameters, cotangent[:, rows], allow_unused=True, materialize_grads=True
        )
        for total, part in zip(totals, parts, strict=True):
            total.add_(part)
    return totals


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
