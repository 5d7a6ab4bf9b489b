"""A policy that stays near another one: today's controller plus a bounded correction."""

from __future__ import annotations

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._deterministic import Deterministic


class DeviationPolicy(Deterministic):
    """The action of a policy, but no farther from that of another one than a limit.

    One training gives a family: with limit 0 the base acts, with a large one the policy.

    Args:
        base: What runs today, or imitates it.
        policy: What was trained.
        limit: Largest deviation of each action in its unit, shape (d_a,).

    Example:
        >>> from nopg.policies import LinearPolicy
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
        self.register_buffer("limit", _checked(limit, policy.num_actions))

    def set_limit(self, limit: ArrayLike) -> None:
        """Change the largest deviations, shape (d_a,)."""
        self.limit.copy_(_checked(limit, self.num_actions))

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a)."""
        return self.between(self.base.mode(features), self.policy.mode(features))

    def between(self, base: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return wanted actions (m, d_a), moved to within the limit of those of the base."""
        return base + torch.minimum(torch.maximum(wanted - base, -self.limit), self.limit)


def _checked(limit: ArrayLike, num_actions: int) -> torch.Tensor:
    found = as_tensor(limit).reshape(-1).clone()
    if len(found) != num_actions or not bool((found.isfinite() & (found >= 0)).all()):
        raise ArgumentError(
            f"the limit of the deviation is {limit}; give {num_actions} finite numbers, at least 0"
        )
    return found
