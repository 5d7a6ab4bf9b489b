"""The interface of the solvers of Λx = b."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from nopg.linalg._resolvent import Resolvent
from nopg.linalg._scale import solve_at_safe_scale
from nopg.linalg._solution import Solution

Pair = tuple[Tensor, Tensor]

CALL = 5_000
"""Overhead of one torch call, in entries of a product."""


class Solver(ABC):
    """Solves Λx = b to a relative residual, with a proven error bound."""

    def solve(
        self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None = None
    ) -> Solution:
        """Solve one system.

        Args:
            system: Λ or Λᵀ.
            b: Right-hand side, shape (n,).
            tolerance: Stops at ‖b − Λx‖ ≤ tolerance · ‖b‖, in the norm of the system.
            guess: Initial x; a direct solver ignores it.
        """
        return solve_at_safe_scale(self._solve, system, b, tolerance=tolerance, guess=guess)

    @abstractmethod
    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        """Solve one system whose right-hand side can be squared."""

    def solve_both(
        self, system: Resolvent, b: Tensor, c: Tensor, *, tolerance: float, guesses: Pair | None = None
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; a direct solver factorises once for both."""
        first, second = guesses or (None, None)
        return (
            self.solve(system, b, tolerance=tolerance, guess=first),
            self.solve(system.T, c, tolerance=tolerance, guess=second),
        )

    def work(self, system: Resolvent, steps: int) -> float:
        """Return about how many entries these products read, to choose between solvers."""
        return steps * (system.operator.work_per_product + 8 * system.operator.size + 14 * CALL)

    def reset(self) -> None:  # noqa: B027 (most solvers keep nothing)
        """Drop all state of earlier equations: the next solve depends on its arguments only."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return, on the CPU, the state that the next solve depends on beside its arguments."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027 (as above)
        """Continue, on equations with the same pattern, as the solver of this `state_dict`, bit for bit."""
