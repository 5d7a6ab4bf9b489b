"""The interface of policies, and their actions and gradients at many states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import torch

# The activations of a chunk of this size fit into the cache.
_CHUNK = 8_192
# Up to this number of states the activations are kept for the gradient, some hundred bytes per state.
_MOST_TAPED = 1 << 18


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

    def progress(self, fraction: float) -> None:
        """Set the schedules of the policy to this fraction of the training; none by default."""


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
    outputs = (policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features)))
    return _accumulate(policy, outputs, cotangent)


class ActionTape:
    """The actions of a policy at many states, with the autograd tape if the states are few enough.

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
        if len(features) * policy.num_action_samples > _MOST_TAPED:
            self.actions = policy_actions(policy, features, noise)
            return
        with torch.enable_grad():
            self._outputs = [
                policy.actions(features[rows], noise[:, rows]) for rows in _chunks(len(features))
            ]
        self.actions = torch.cat([part.detach() for part in self._outputs], dim=1)

    def gradient(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        """Return Σ cotangent · ∂actions/∂θ; see `policy_gradient`."""
        outputs, self._outputs = self._outputs, None  # a tape can be used once
        if outputs is None:
            return policy_gradient(self.policy, self.features, self.noise, cotangent)
        return _accumulate(self.policy, outputs, cotangent)


def _accumulate(
    policy: Policy, outputs: Iterable[torch.Tensor], cotangent: torch.Tensor
) -> list[torch.Tensor]:
    """Return the gradient of the parameters, summed over chunks of actions."""
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
    for start in range(0, max(count, 1), _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
