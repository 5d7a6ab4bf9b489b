"""The interface of policies, and what every one of them keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from nopg._checks import require
from nopg._seeding import generator

_ROWS = 7


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
        """Draw the standard normal noise (L, m, d_a) of `actions`."""
        shape = (self.num_action_samples, num_states, self.num_actions)
        return torch.randn(shape, generator=rng, dtype=torch.float64)


class Deterministic(Policy):
    """A policy with one action per state and no noise."""

    num_action_samples = 1

    def noise(self, num_states: int, rng: torch.Generator) -> torch.Tensor:
        """Return an empty noise, shape (1, m, 0)."""
        del rng
        return torch.zeros(1, num_states, 0, dtype=torch.float64)

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return the one action per state, shape (1, m, d_a)."""
        del noise
        return self.mode(features)[None]


def trainable(policy: Policy) -> list[torch.nn.Parameter]:
    """Return the trainable parameters, in order."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def policy_gradient(
    policy: Policy, actions: Sequence[torch.Tensor], by_action: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Return Σ by_action · ∂actions/∂θ, one tensor per trainable parameter; both have the same shapes."""
    return torch.autograd.grad(
        actions, trainable(policy), by_action, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def check_policy(policy: Policy, num_features: int) -> None:
    """Raise an `ArgumentError` unless a policy can be trained and run; call it in the test of your class.

    Example:
        >>> from nopg.policies import LinearPolicy
        >>> check_policy(LinearPolicy([[-0.4, -0.1]]), num_features=2)
    """
    rng = generator(0, "contract of a policy")
    features = torch.randn(_ROWS, num_features, generator=rng, dtype=torch.float64)
    given, noise = features.clone(), policy.noise(_ROWS, rng)
    actions, drawn = policy.mode(features), policy.actions(features, noise)
    shape = (_ROWS, policy.num_actions)
    require(tuple(actions.shape) == shape, f"mode returns shape {tuple(actions.shape)} instead of {shape}")
    whole = (policy.num_action_samples, *shape)
    require(tuple(drawn.shape) == whole, f"actions returns shape {tuple(drawn.shape)} instead of {whole}")
    require(bool(actions.isfinite().all() and drawn.isfinite().all()), "an action is not finite")
    require(torch.equal(features, given), "mode or actions changes its inputs")
    require(torch.equal(policy.mode(features), actions), "mode returns something else in the second call")
    alone = torch.cat([policy.mode(row[None]) for row in features])
    require(torch.allclose(alone, actions, rtol=1e-9, atol=1e-12), "an action depends on the other rows")
    if isinstance(policy, Deterministic):
        require(torch.equal(drawn[0], actions), "the policy is deterministic, but actions is not mode")
    parameters = trainable(policy)
    require(bool(parameters), "no parameter is trainable")
    gradients = torch.autograd.grad(drawn.sum(), parameters, allow_unused=True)
    moved = any(one is not None and bool(one.isfinite().all() and one.any()) for one in gradients)
    require(moved, "the actions have no gradient by the parameters")
