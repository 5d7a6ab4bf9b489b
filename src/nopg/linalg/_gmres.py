"""Restarted flexible GMRES (Saad 1993) with an approximate inverse on the right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from nopg._nesting import nested, part_of
from nopg.linalg._bicgstab import BiCGSTAB
from nopg.linalg._resolvent import Preconditioner, Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import CALL, Solver
from nopg.linalg._space import VectorSpace

__all__ = ["GMRES"]

# A basis vector that lost more than this share of its length is orthogonalised again.
_LOST = 0.05
# The approximate inverse of an earlier policy serves until it needs so many more steps than when it was new.
_AGED_SHARE, _AGED_STEPS = 1.15, 2


@dataclass(slots=True)
class GMRES(Solver):
    """GMRES on ΛM y = b, x = My, where M is the operator's own preconditioner.

    M is kept from one equation to the next of the same structure: policies change little between updates.
    It is built again when it has aged. The vectors My are stored beside the basis, as flexible GMRES does:
    M is fixed, but applying it once more would cost as much as a step. Where the operator has no
    preconditioner, or the steps run out, BiCGSTAB takes over.

    Attributes:
        restart: Length of the basis.
        max_steps: Products before BiCGSTAB takes over.
    """

    restart: int = 24
    max_steps: int = 300
    _kept: _Kept | None = field(default=None, init=False, repr=False)
    _told: dict[str, torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    def solve(
        self, system: Resolvent, b: torch.Tensor, *, tolerance: float, guess: torch.Tensor | None = None
    ) -> Solution:
        """Solve one system; see `Solver.solve`."""
        kept = self._preconditioner(system, guess if system.transposed else None)
        if kept is None:
            return BiCGSTAB().solve(system, b, tolerance=tolerance, guess=guess)
        x, residual, steps = self._iterate(system, kept.inverse, b, tolerance=tolerance, guess=guess)
        kept.count(steps, transposed=system.transposed)
        solution = system.certify(x, b, num_steps=steps, tolerance=tolerance, residual=residual)
        if solution.converged:
            return solution
        rest = BiCGSTAB().solve(system, b, tolerance=tolerance, guess=x if x.isfinite().all() else guess)
        return replace(rest, num_steps=solution.num_steps + rest.num_steps)

    def solve_both(
        self,
        system: Resolvent,
        b: torch.Tensor,
        c: torch.Tensor,
        *,
        tolerance: float,
        guesses: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; the last y shapes the cells of the preconditioner, if it is new."""
        if guesses is not None:
            self._preconditioner(system, guesses[1])
        return Solver.solve_both(self, system, b, c, tolerance=tolerance, guesses=guesses)

    def forget(self) -> None:
        """Drop what was kept of earlier equations; see `Solver.forget`."""
        self._kept, self._told = None, {}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the preconditioner and how well it did when it was new; see `Solver.state_dict`."""
        if self._kept is None or self._kept.aged:  # the next solve builds it in any case
            return dict(self._told)
        return self._kept.state_dict()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take over a preconditioner, which the next solve builds again; see `Solver.load_state_dict`."""
        self._kept, self._told = None, dict(state)
        if state:  # read now what cannot be read later
            _ = float(state["discount"]), _fresh(state)

    def work(self, system: Resolvent, steps: int) -> float:
        """Return about how many entries these steps touched; see `Solver.work`."""
        P, inverse = system.operator, 0 if self._kept is None else self._kept.inverse.work
        return steps * (P.work_per_product + inverse + 2 * min(steps, self.restart) * P.size + 60 * CALL)

    def _preconditioner(self, system: Resolvent, visits: torch.Tensor | None) -> _Kept | None:
        if self._told:
            self._kept, self._told = _Kept.restored(system, self._told), {}
        if self._kept is not None and self._kept.serves(system):
            return self._kept
        self._kept = None  # the old one goes before the new one comes: they are large
        inverse = system.operator.preconditioner(system.discount, visits)
        self._kept = (
            None if inverse is None else _Kept(inverse, system.operator.structure_key, system.discount)
        )
        return self._kept

    def _iterate(
        self,
        system: Resolvent,
        inverse: Preconditioner,
        b: torch.Tensor,
        *,
        tolerance: float,
        guess: torch.Tensor | None,
    ) -> tuple[torch.Tensor, float, int]:
        """Return x, its residual and the products with P that it took."""
        space, transposed = system.operator.space, system.transposed
        target = tolerance * system.norm(b)
        x, r, steps = torch.zeros_like(b), b, 0
        # The visits of another policy are off by more than all of b; only their shape helps.
        if guess is not None and not transposed:
            start = b - system.apply(guess)
            steps = 1
            if system.norm(start) < system.norm(b):
                x, r = guess, start
        basis, moved = b.new_empty(self.restart + 1, len(b)), b.new_empty(self.restart, len(b))
        norm = system.norm(r)

        while norm > target and steps < self.max_steps:
            length = math.sqrt(space.dot(r, r))
            torch.mul(r, 1.0 / length, out=basis[0])
            cycle = _Cycle(length)
            for k in range(self.restart):
                moved[k] = inverse.apply(basis[k], transposed=transposed)
                w = system.apply(moved[k])
                steps += 1
                happy = _orthogonalize(w, basis, k, cycle, space)
                # Least squares are in another norm; where they promise enough, look at the residual itself.
                if cycle.residual <= target / norm * length or happy or k + 1 == self.restart:
                    r = cycle.residual_vector(basis)
                    if system.norm(r) <= target or happy:
                        break
            y = cycle.minimizer()
            x = x + b.new_tensor(y) @ moved[: len(y)]
            r = b - system.apply(x)
            steps += 1
            before, norm = norm, system.norm(r)
            if not norm < 0.9 * before:
                break
        return x, norm, steps


@dataclass(slots=True)
class _Kept:
    """A preconditioner, what it serves, and how well it did when it was new."""

    inverse: Preconditioner
    structure_key: object
    discount: float
    fresh: dict[bool, int] = field(default_factory=dict)
    aged: bool = False

    def serves(self, system: Resolvent) -> bool:
        return (
            self.structure_key is system.operator.structure_key
            and self.discount == system.discount
            and not self.aged
        )

    def count(self, steps: int, *, transposed: bool) -> None:
        fresh = self.fresh.setdefault(transposed, steps)
        self.aged = self.aged or steps > _AGED_SHARE * fresh + _AGED_STEPS

    def state_dict(self) -> dict[str, torch.Tensor]:
        numbers = {f"fresh.{int(transposed)}": torch.tensor(k) for transposed, k in self.fresh.items()}
        numbers["discount"] = torch.tensor(self.discount, dtype=torch.float64)
        return numbers | nested(inverse=self.inverse.state_dict())

    @classmethod
    def restored(cls, system: Resolvent, state: Mapping[str, torch.Tensor]) -> _Kept | None:
        """Return what was kept for systems like this one; None if it was for others."""
        if float(state["discount"]) != system.discount:
            return None
        inverse = system.operator.restored_preconditioner(system.discount, part_of("inverse", state))
        if inverse is None:
            return None
        return cls(inverse, system.operator.structure_key, system.discount, _fresh(state))


def _fresh(state: Mapping[str, torch.Tensor]) -> dict[bool, int]:
    return {bool(k): int(state[f"fresh.{k}"]) for k in (0, 1) if f"fresh.{k}" in state}


class _Cycle:
    """The small least-squares problem min ‖βe₁ − Hy‖ of one cycle, kept triangular by rotations."""

    def __init__(self, beta: float) -> None:
        self.columns: list[list[float]] = []  # of H
        self._triangle: list[list[float]] = []
        self._rotations: list[tuple[float, float]] = []
        self._right = [beta]
        self._beta = beta

    @property
    def residual(self) -> float:
        """The least-squares residual."""
        return abs(self._right[-1])

    def append(self, column: list[float]) -> None:
        """Add a column (k + 2,) of H."""
        self.columns.append(column)
        h = list(column)
        for k, (c, s) in enumerate(self._rotations):
            h[k], h[k + 1] = c * h[k] + s * h[k + 1], -s * h[k] + c * h[k + 1]
        size = math.hypot(h[-2], h[-1]) or 1.0
        c, s = h[-2] / size, h[-1] / size
        self._rotations.append((c, s))
        self._triangle.append([*h[:-2], size])
        last = self._right.pop()
        self._right += [c * last, -s * last]

    def minimizer(self) -> list[float]:
        """Return y."""
        k = len(self.columns)
        y = [0.0] * k
        for row in reversed(range(k)):
            rest = self._right[row] - sum(
                self._triangle[column][row] * y[column] for column in range(row + 1, k)
            )
            y[row] = rest / self._triangle[row][row]
        return y

    def residual_vector(self, basis: torch.Tensor) -> torch.Tensor:
        """Return V(βe₁ − Hy), the residual of the system without another product."""
        y, k = self.minimizer(), len(self.columns)
        small = [self._beta] + [0.0] * k
        for column, weight in zip(self.columns, y, strict=True):
            for row, entry in enumerate(column):
                small[row] -= entry * weight
        return basis.new_tensor(small) @ basis[: k + 1]


def _orthogonalize(w: torch.Tensor, basis: torch.Tensor, k: int, cycle: _Cycle, space: VectorSpace) -> bool:
    """Put w, made orthogonal to the basis and of length 1, behind it; True if nothing of it is left."""
    before = math.sqrt(space.dot(w, w))
    h = space.dots(basis[: k + 1], w)
    w.addmv_(basis[: k + 1].T, h, alpha=-1)
    after = math.sqrt(space.dot(w, w))
    if after < _LOST * before:
        again = space.dots(basis[: k + 1], w)
        w.addmv_(basis[: k + 1].T, again, alpha=-1)
        h = h + again
        after = math.sqrt(space.dot(w, w))
    cycle.append([*h.tolist(), after])
    happy = not after > torch.finfo(w.dtype).eps * before
    if not happy:
        torch.mul(w, 1.0 / after, out=basis[k + 1])
    return happy
