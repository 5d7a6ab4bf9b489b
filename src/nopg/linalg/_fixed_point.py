"""Fixed-point iteration x ← b + γPx: slow, with guaranteed convergence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Solver


@dataclass(frozen=True, slots=True)
class FixedPoint(Solver):
    """Contracts by γ in every step, for any P with row sums of at most 1.

    Attributes:
        max_steps: Largest number of steps; by default 10 more than the rate γ needs.
    """

    max_steps: int | None = None

    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        target = tolerance * system.norm(b)
        x = b.clone() if guess is None or target == 0.0 else guess  # for b = 0 the solution is 0
        limit = self.max_steps or self._steps_needed(system, b, x, tolerance)

        for step in range(limit):
            successor = b + system.propagate(x)
            if system.norm(successor - x) <= target:  # successor − x is the residual of x
                return system.certify(x, b, num_steps=step + 1, tolerance=tolerance)
            x = successor
        return system.certify(x, b, num_steps=limit, tolerance=tolerance)

    @staticmethod
    def _steps_needed(system: Resolvent, b: Tensor, x: Tensor, tolerance: float) -> int:
        if system.discount == 0.0:
            return 2
        start, target = system.norm(b - system.apply(x)), tolerance * system.norm(b)
        if target == 0.0 or start <= target:
            return 2
        # Rounding can delay the last steps.
        return math.ceil(math.log(target / start) / math.log(system.discount)) + 10
