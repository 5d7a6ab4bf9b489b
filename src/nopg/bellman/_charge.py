"""Costs that are taken off the rewards of rollouts at a price."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nopg.models import RewardFunction
from nopg.models._rollout import Rollout, along

__all__ = ["Charge"]


@dataclass(frozen=True, slots=True, eq=False)
class Charge:
    """A cost that is taken off the rewards at a price.

    Attributes:
        price: Per unit of cost and step.
        cost: A differentiable function of (s, a, s′); or the number of a column that the model fits.
    """

    price: float
    cost: RewardFunction | int

    def applied(self, path: Rollout, *, slopes: bool) -> Rollout:
        """Return paths with the cost taken off their rewards."""
        if isinstance(self.cost, int):
            cost = path.costs[self.cost]
            by_x = np.zeros(0) if path.cost_slopes is None else path.cost_slopes[self.cost]
        else:
            cost, by_x = along(path, self.cost, slopes=slopes)
        rewards = path.rewards - self.price * cost
        if not slopes or path.slopes is None:
            return replace(path, rewards=rewards)
        moves, rewarding, unknowing = path.slopes
        return replace(path, rewards=rewards, slopes=(moves, rewarding - self.price * by_x, unknowing))
