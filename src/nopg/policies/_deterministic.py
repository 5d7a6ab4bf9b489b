"""Deterministic policies, a = π(s): NOPG-D."""

from __future__ import annotations

from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._networks import MLP, ActionRange, new_network
from nopg.policies._policy import Deterministic, Policy


class Mode(Deterministic):
    """The mode of any policy, as a deterministic policy."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy, self.num_actions = policy, policy.num_actions

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the mode of the policy."""
        return self.policy.mode(features)


class LinearPolicy(Deterministic):
    """a = K s, with all gains free or only the diagonal ones (`eq:lqr_diagonal_policy`).

    Args:
        gain: K, shape (d_a, d_f); for a diagonal policy the diagonal alone, shape (d,).

    Example:
        >>> LinearPolicy([-6.4, -3.4]).mode(torch.ones(1, 2, dtype=torch.float64))
        tensor([[-6.4000, -3.4000]], dtype=torch.float64, grad_fn=<MulBackward0>)
    """

    def __init__(self, gain: ArrayLike) -> None:
        super().__init__()
        K = as_tensor(gain).clone()
        if K.ndim not in {1, 2}:
            raise ArgumentError(f"gain has shape {tuple(K.shape)}; give (d_a, d_f), or the diagonal (d,)")
        self.gain = torch.nn.Parameter(K)
        self.num_actions = len(K)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return K s."""
        return features * self.gain if self.gain.ndim == 1 else features @ self.gain.T


class MLPPolicy(Deterministic):
    """a = centre + radius·tanh(f(s)), f the supplement's network of 50 ReLU units.

    Args:
        network: f, with d_a outputs.
        action_range: The interval of actions.
    """

    def __init__(self, network: MLP, action_range: ActionRange) -> None:
        super().__init__()
        self.network, self.action_range = network, action_range
        self.num_actions = len(action_range.center)

    @classmethod
    def from_data(
        cls,
        features: torch.Tensor,
        actions: torch.Tensor,
        *,
        rng: torch.Generator,
        hidden: int = 50,
        linear: bool = False,
        weights: torch.Tensor | None = None,
    ) -> Self:
        """Return an untrained policy with inputs standardised and outputs bounded as in the data.

        Features of the states are (n, d_f), logged actions (n, d_a), weights of the rows (n,), one each by
        default; see `MLP` for the others.
        """
        return cls(*new_network(features, actions, rng=rng, hidden=hidden, linear=linear, weights=weights))

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the action (m, d_a)."""
        actions: torch.Tensor = self.action_range(self.network(features))
        return actions


class DeviationPolicy(Deterministic):
    """The action of a policy, but no farther from that of another one than a limit.

    One training gives a family: with limit 0 the base acts, with a large one the policy.

    Args:
        base: What runs today, or imitates it.
        policy: What was trained.
        limit: Largest deviation of each action in its unit, shape (d_a,).

    Example:
        >>> near = DeviationPolicy(LinearPolicy([[-1.0]]), LinearPolicy([[-3.0]]), [0.5])
        >>> near.mode(torch.tensor([[0.125], [1.0]]).double()).tolist()
        [[-0.375], [-1.5]]
    """

    limit: torch.Tensor

    def __init__(self, base: Deterministic, policy: Deterministic, limit: ArrayLike) -> None:
        super().__init__()
        if base.num_actions != policy.num_actions:
            raise ArgumentError(
                f"the base has {base.num_actions} actions, the policy {policy.num_actions}; they must agree"
            )
        self.base, self.policy, self.num_actions = base, policy, policy.num_actions
        self.register_buffer("limit", torch.zeros(policy.num_actions, dtype=torch.float64))
        self.set_limit(limit)

    def set_limit(self, limit: ArrayLike) -> None:
        """Change the largest deviations, shape (d_a,)."""
        found = as_tensor(limit).reshape(-1)
        if len(found) != self.num_actions or not bool((found.isfinite() & (found >= 0)).all()):
            raise ArgumentError(
                f"the limit of the deviation is {limit}; give {self.num_actions} finite numbers, at least 0"
            )
        self.limit.copy_(found)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a)."""
        base = self.base.mode(features)
        wanted = self.policy.mode(features) - base
        return base + torch.minimum(torch.maximum(wanted, -self.limit), self.limit)
