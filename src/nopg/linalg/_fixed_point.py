"""Fixed-point iteration x ← b + γPx: slow, and certain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Solver

__all__ = ["FixedPoint"]


@dataclass(frozen=True, slots=True)
class FixedPoint(Solver):
    """Contracts by γ in every step, for any P with row sums of at most 1.

    Attributes:
        max_steps: Steps after which it gives up; the default is what the rate γ needs, and some.
    """

    max_steps: int | None = None

    def solve(
        self, system: Resolvent, b: torch.Tensor, *, tolerance: float, guess: torch.Tensor | None = None
    ) -> Solution:
        """Solve one system; see `Solver.solve`."""
        target = tolerance * system.norm(b)
        x = b.clone() if guess is None or target == 0.0 else guess  # to b = 0 the answer is known: 0
        limit = self.max_steps or self._steps_needed(system, b, x, tolerance)

        for step in range(limit):
            successor = b + system.propagate(x)
            if system.norm(successor - x) <= target:  # successor − x is the residual of x
                return system.certify(x, b, num_steps=step + 1, tolerance=tolerance)
            x = successor
        return system.certify(x, b, num_steps=limit, tolerance=tolerance)

    @staticmethod
    def _steps_needed(system: Resolvent, b: torch.Tensor, x: torch.Tensor, tolerance: float) -> int:
        if system.discount == 0.0:
            return 2
        start, target = system.norm(b - system.apply(x)), tolerance * system.norm(b)
        if target == 0.0 or start <= target:
            return 2
        # Rounding can hold the residual up by some steps at the end.
        return math.ceil(math.log(target / start) / math.log(system.discount)) + 10
