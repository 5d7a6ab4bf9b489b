"""An ascent that goes back to its best policy, with smaller steps, where a step has led down."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch

from nopg.policies import Policy

__all__ = ["Backtracking"]

# What counts as a step down, of the range of returns; and what a step is then multiplied by.
_DOWN, _SMALLER = 2e-3, 0.3


class Backtracking:
    """Keeps the best policy of an ascent on a deterministic objective.

    Args:
        return_range: How far returns may differ.

    Attributes:
        scale: Factor on the learning rate.
    """

    def __init__(self, return_range: float) -> None:
        self.scale = 1.0
        self._slack = _DOWN * return_range
        self._best, self._parameters = -math.inf, dict[str, torch.Tensor]()

    def review(self, policy: Policy, optimizer: torch.optim.Optimizer, objective: float) -> bool:
        """Return whether to step on from this policy; if not, it is put back to the best one."""
        if objective > self._best:
            self._best, self._parameters = objective, copy.deepcopy(policy.state_dict())
        elif not objective >= self._best - self._slack:
            self.scale *= _SMALLER
            optimizer.state.clear()
            policy.load_state_dict(self._parameters)
            return False
        return True

    def finish(self, policy: Policy) -> None:
        """Put the policy to the best one."""
        policy.load_state_dict(self._parameters)

    def memory(self) -> dict[str, torch.Tensor]:
        """Return what the next review depends on."""
        numbers = torch.tensor([self.scale, self._best], dtype=torch.float64)
        return {"numbers": numbers, **{f"best.{name}": value for name, value in self._parameters.items()}}

    def remember(self, memory: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `memory` returned."""
        self.scale, self._best = memory["numbers"].tolist()
        self._parameters = {
            name.removeprefix("best."): value for name, value in memory.items() if name.startswith("best.")
        }
