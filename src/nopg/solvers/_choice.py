"""Which solver for which equation."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.errors import ArgumentError, SolverError
from nopg.solvers._bicgstab import BiCGSTAB
from nopg.solvers._dense import DenseLU
from nopg.solvers._fixed_point import FixedPoint
from nopg.solvers._resolvent import Resolvent
from nopg.solvers._solution import Solution
from nopg.solvers._solver import Solver

__all__ = ["Auto", "solver_by_name"]


@dataclass(frozen=True, slots=True)
class Auto(Solver):
    """Dense LU where it is faster, BiCGSTAB with the fixed point as its net above.

    Attributes:
        dense_up_to: The largest n solved by LU.
    """

    dense_up_to: int = 400

    def solve(
        self, system: Resolvent, b: torch.Tensor, *, tolerance: float, guess: torch.Tensor | None = None
    ) -> Solution:
        """Solve one system; see `Solver.solve`."""
        return self._choose(system).solve(system, b, tolerance=tolerance, guess=guess)

    def solve_both(
        self,
        system: Resolvent,
        b: torch.Tensor,
        c: torch.Tensor,
        *,
        tolerance: float,
        guesses: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; see `Solver.solve_both`."""
        return self._choose(system).solve_both(system, b, c, tolerance=tolerance, guesses=guesses)

    def _choose(self, system: Resolvent) -> Solver:
        return DenseLU() if system.operator.size <= self.dense_up_to else BiCGSTAB()


_SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "bicgstab": BiCGSTAB,
    "fixed-point": FixedPoint,
    "lu": DenseLU,
}


def solver_by_name(name: str) -> Solver:
    """Return the solver of that name; conjugate gradient is refused with the reason.

    Example:
        >>> solver_by_name("bicgstab")
        BiCGSTAB(max_steps=2000)
        >>> solver_by_name("cg")
        Traceback (most recent call last):
        nopg.errors.SolverError: conjugate gradient needs a symmetric positive definite matrix; ...
    """
    if name.lower() in {"cg", "conjugate-gradient", "conjugate_gradient"}:
        raise SolverError(
            "conjugate gradient needs a symmetric positive definite matrix; Λ = I − γP is not symmetric, and "
            "the method returns wrong numbers or NaN on it, though the paper names it. "
            "Use 'auto', 'bicgstab', 'lu' or 'fixed-point'"
        )
    if name not in _SOLVERS:
        raise ArgumentError(f"there is no solver {name!r}; choose one of {sorted(_SOLVERS)}")
    return _SOLVERS[name]()
