"""The interface of the solvers of Λx = b."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch

from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution

__all__ = ["CALL", "Solver"]

CALL = 5_000
"""What one call of a torch operation costs before it touches anything, in entries of a product."""


class Solver(ABC):
    """Solves Λx = b to a relative residual, and says what it proved."""

    @abstractmethod
    def solve(
        self, system: Resolvent, b: torch.Tensor, *, tolerance: float, guess: torch.Tensor | None = None
    ) -> Solution:
        """Solve one system.

        Args:
            system: Λ or Λᵀ.
            b: Right-hand side, shape (n,).
            tolerance: Stop where ‖b − Λx‖ ≤ tolerance · ‖b‖, in the norm of the system.
            guess: Where to start; a direct solver ignores it.
        """

    def solve_both(
        self,
        system: Resolvent,
        b: torch.Tensor,
        c: torch.Tensor,
        *,
        tolerance: float,
        guesses: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; a direct solver factorises once for both."""
        first, second = guesses or (None, None)
        return (
            self.solve(system, b, tolerance=tolerance, guess=first),
            self.solve(system.T, c, tolerance=tolerance, guess=second),
        )

    def work(self, system: Resolvent, steps: int) -> float:
        """Return about how many entries so many products touched here, to choose between solvers."""
        return steps * (system.operator.work_per_product + 8 * system.operator.size + 14 * CALL)

    def forget(self) -> None:  # noqa: B027 (most solvers keep nothing)
        """Drop what was kept of earlier equations: the next solve depends on its arguments alone."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return, on the CPU, all that the next solve depends on beside its arguments."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:  # noqa: B027 (as above)
        """Go on, with equations of the same structure, as the solver of this state would, bit for bit.

        Args:
            state: What `state` returned, perhaps in another process.
        """
