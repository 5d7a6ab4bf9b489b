"""The choice of a solver, automatic or by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nopg._nesting import nested, part_of
from nopg.errors import ArgumentError, SolverError
from nopg.linalg._bicgstab import BiCGSTAB
from nopg.linalg._dense import DenseLU
from nopg.linalg._fixed_point import FixedPoint
from nopg.linalg._gmres import GMRES
from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Pair, Solver

_log = logging.getLogger(__name__)

# The choice is repeated when an equation needs this many times the work of the trial.
_WORK_GROWTH = 2.0


@dataclass(slots=True)
class Auto(Solver):
    """Dense LU for small n; else GMRES, or BiCGSTAB if it needed less work on the first equation.

    The trial is repeated when the work per equation has doubled. Work is counted in entries, not in
    seconds, so that the choice is reproducible.

    Attributes:
        dense_up_to: Largest n solved by LU.
    """

    dense_up_to: int = 400
    _chosen: Solver | None = field(default=None, init=False, repr=False)
    _structure_key: object = field(default=None, init=False, repr=False)
    _work: float = field(default=0.0, init=False, repr=False)
    _restored: bool = field(default=False, init=False, repr=False)

    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        solver: Solver = DenseLU() if self._small(system) else BiCGSTAB()
        return solver.solve(system, b, tolerance=tolerance, guess=guess)

    def solve_both(
        self, system: Resolvent, b: Tensor, c: Tensor, *, tolerance: float, guesses: Pair | None = None
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; see `Solver.solve_both`."""
        if self._small(system):
            return DenseLU().solve_both(system, b, c, tolerance=tolerance, guesses=guesses)

        if self._restored:
            self._structure_key, self._restored = system.operator.structure_key, False
        chosen = self._chosen if self._structure_key is system.operator.structure_key else None
        solver = chosen or GMRES()
        both = solver.solve_both(system, b, c, tolerance=tolerance, guesses=guesses)
        work = _work(solver, system, both)
        if chosen is not None:
            if work > _WORK_GROWTH * self._work:
                self._chosen = None
            return both

        # BiCGSTAB may use at most the work of GMRES: on large data the trial would be expensive otherwise.
        step = BiCGSTAB().work(system, 1)
        trial = BiCGSTAB(max_steps=max(int(work / (2 * step)), 4), fallback=False)
        other = trial.solve_both(system, b, c, tolerance=tolerance, guesses=guesses)
        trial_work = _work(trial, system, other)
        if all(solution.converged for solution in other) and trial_work < work:
            solver, both, work = BiCGSTAB(), other, trial_work
        self._chosen, self._structure_key, self._work = solver, system.operator.structure_key, work
        _log.debug("solver: %s", solver)
        return both

    def reset(self) -> None:
        """Drop the choice and the state of the solvers; see `Solver.reset`."""
        self._chosen, self._structure_key, self._restored = None, None, False

    def state_dict(self) -> dict[str, Tensor]:
        """Return the choice, its work, and the state of the chosen solver; see `Solver.state_dict`."""
        if self._chosen is None:
            return {}
        state = {
            "gmres": torch.tensor(isinstance(self._chosen, GMRES)),
            "work": torch.tensor(self._work, dtype=torch.float64),
        }
        return state | nested(chosen=self._chosen.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a choice; see `Solver.load_state_dict`."""
        self.reset()
        if not state:
            return
        self._chosen = GMRES() if bool(state["gmres"]) else BiCGSTAB()
        self._work, self._restored = float(state["work"]), True
        self._chosen.load_state_dict(part_of("chosen", state))

    def _small(self, system: Resolvent) -> bool:
        return system.operator.size <= self.dense_up_to


def _work(solver: Solver, system: Resolvent, both: tuple[Solution, Solution]) -> float:
    """Return the work of both solves."""
    return sum(solver.work(system, solution.num_steps) for solution in both)


_SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "bicgstab": BiCGSTAB,
    "fixed-point": FixedPoint,
    "gmres": GMRES,
    "lu": DenseLU,
}


def solver_by_name(name: str) -> Solver:
    """Return the solver of that name; conjugate gradient is refused with the reason.

    Example:
        >>> solver_by_name("bicgstab")
        BiCGSTAB(max_steps=2000, fallback=True)
        >>> solver_by_name("cg")
        Traceback (most recent call last):
        nopg.errors.SolverError: conjugate gradient needs a symmetric positive definite matrix; ...
    """
    if name.lower() in {"cg", "conjugate-gradient", "conjugate_gradient"}:
        raise SolverError(
            "conjugate gradient needs a symmetric positive definite matrix; Λ = I − γP is not symmetric, and "
            "the method returns wrong numbers or NaN on it, though the paper names it. "
            "Use 'auto', 'gmres', 'bicgstab', 'lu' or 'fixed-point'"
        )
    if name not in _SOLVERS:
        raise ArgumentError(f"there is no solver {name!r}; choose one of {sorted(_SOLVERS)}")
    return _SOLVERS[name]()
