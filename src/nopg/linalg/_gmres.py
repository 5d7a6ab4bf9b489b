"""Restarted flexible GMRES (Saad 1993) with an approximate inverse on the right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nopg._nesting import nested, part_of
from nopg.linalg._bicgstab import BiCGSTAB
from nopg.linalg._resolvent import Preconditioner, Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import CALL, Pair, Solver

# A basis vector shortened to less than this share of its length is orthogonalised again.
_LEAST_LENGTH = 0.05
# A preconditioner is rebuilt when a solve needs more than 1.15 k + 2 steps, k those of its first solve.
_AGED_SHARE, _AGED_STEPS = 1.15, 2


@dataclass(slots=True)
class GMRES(Solver):
    """GMRES on ΛM y = b, x = My, where M is the preconditioner of the operator.

    M is kept for later equations with the same pattern, because policies change little between updates, and
    is rebuilt when solves need more steps. The vectors My are stored beside the basis, as in flexible GMRES:
    M is fixed, but another product with it would cost as much as a step. Without a preconditioner, or after
    the last step, BiCGSTAB continues.

    Attributes:
        restart: Length of the basis.
        max_steps: Largest number of products before BiCGSTAB.
    """

    restart: int = 24
    max_steps: int = 300
    _kept: _Kept | None = field(default=None, init=False, repr=False)
    _pending_state: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        kept = self._preconditioner(system, guess if system.transposed else None)
        if kept is None:
            return BiCGSTAB().solve(system, b, tolerance=tolerance, guess=guess)
        x, residual, steps = self._iterate(system, kept.inverse, b, tolerance=tolerance, guess=guess)
        kept.record(steps, transposed=system.transposed)
        solution = system.certify(x, b, num_steps=steps, tolerance=tolerance, residual=residual)
        if solution.converged:
            return solution
        rest = BiCGSTAB().solve(system, b, tolerance=tolerance, guess=x if x.isfinite().all() else guess)
        return replace(rest, num_steps=solution.num_steps + rest.num_steps)

    def solve_both(
        self, system: Resolvent, b: Tensor, c: Tensor, *, tolerance: float, guesses: Pair | None = None
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c; the guess of y gives a new preconditioner its weights inside cells."""
        if guesses is not None:
            self._preconditioner(system, guesses[1])
        return Solver.solve_both(self, system, b, c, tolerance=tolerance, guesses=guesses)

    def reset(self) -> None:
        """Drop the preconditioner; see `Solver.reset`."""
        self._kept, self._pending_state = None, {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the preconditioner and the steps of its first solves; see `Solver.state_dict`."""
        if self._kept is None or self._kept.aged:  # the next solve rebuilds it
            return dict(self._pending_state)
        return self._kept.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Set the preconditioner that the next solve restores; see `Solver.load_state_dict`."""
        self._kept, self._pending_state = None, dict(state)
        if state:  # raises now if the state is incomplete
            _ = float(state["discount"]), _first_steps(state)

    def work(self, system: Resolvent, steps: int) -> float:
        """Return about how many entries these steps read; see `Solver.work`."""
        P, inverse = system.operator, 0 if self._kept is None else self._kept.inverse.work
        return steps * (P.work_per_product + inverse + 2 * min(steps, self.restart) * P.size + 60 * CALL)

    def _preconditioner(self, system: Resolvent, visits: Tensor | None) -> _Kept | None:
        if self._pending_state:
            self._kept, self._pending_state = _Kept.restored(system, self._pending_state), {}
        if self._kept is not None and self._kept.fits(system):
            return self._kept
        self._kept = None  # frees memory before the new one is built
        inverse = system.operator.preconditioner(system.discount, visits)
        self._kept = (
            None if inverse is None else _Kept(inverse, system.operator.structure_key, system.discount)
        )
        return self._kept

    def _iterate(
        self, system: Resolvent, inverse: Preconditioner, b: Tensor, *, tolerance: float, guess: Tensor | None
    ) -> tuple[Tensor, float, int]:
        """Return x, its residual and the number of products with P."""
        transposed, target = system.transposed, tolerance * system.norm(b)
        x, r, steps = torch.zeros_like(b), b, 0
        # The visits of another policy have a residual larger than b; only the preconditioner uses them.
        if guess is not None and not transposed:
            start = b - system.apply(guess)
            steps = 1
            if system.norm(start) < system.norm(b):
                x, r = guess, start
        basis, preconditioned = b.new_empty(self.restart + 1, len(b)), b.new_empty(self.restart, len(b))
        norm = system.norm(r)

        while norm > target and steps < self.max_steps:
            length = math.sqrt(torch.dot(r, r))
            torch.mul(r, 1.0 / length, out=basis[0])
            cycle = _Cycle(length)
            for k in range(self.restart):
                preconditioned[k] = inverse.apply(basis[k], transposed=transposed)
                w = system.apply(preconditioned[k])
                steps += 1
                happy = _orthogonalize(w, basis, k, cycle)
                # The least-squares residual is in another norm; if it is small enough, compute the residual.
                if cycle.residual <= target / norm * length or happy or k + 1 == self.restart:
                    r = cycle.residual_vector(basis)
                    if system.norm(r) <= target or happy:
                        break
            y = cycle.minimizer()
            x = x + b.new_tensor(y) @ preconditioned[: len(y)]
            r = b - system.apply(x)
            steps += 1
            before, norm = norm, system.norm(r)
            if not norm < 0.9 * before:
                break
        return x, norm, steps


@dataclass(slots=True)
class _Kept:
    """A preconditioner, the system it was built for, and the steps of its first solves."""

    inverse: Preconditioner
    structure_key: object
    discount: float
    first_steps: dict[bool, int] = field(default_factory=dict)
    aged: bool = False

    def fits(self, system: Resolvent) -> bool:
        return (
            self.structure_key is system.operator.structure_key
            and self.discount == system.discount
            and not self.aged
        )

    def record(self, steps: int, *, transposed: bool) -> None:
        first = self.first_steps.setdefault(transposed, steps)
        self.aged = self.aged or steps > _AGED_SHARE * first + _AGED_STEPS

    def state_dict(self) -> dict[str, Tensor]:
        numbers = {f"fresh.{int(transposed)}": torch.tensor(k) for transposed, k in self.first_steps.items()}
        numbers["discount"] = torch.tensor(self.discount, dtype=torch.float64)
        return numbers | nested(inverse=self.inverse.state_dict())

    @classmethod
    def restored(cls, system: Resolvent, state: Mapping[str, Tensor]) -> _Kept | None:
        """Return the preconditioner with this state; None if it was built for another discount."""
        if float(state["discount"]) != system.discount:
            return None
        inverse = system.operator.restored_preconditioner(system.discount, part_of("inverse", state))
        if inverse is None:
            return None
        return cls(inverse, system.operator.structure_key, system.discount, _first_steps(state))


def _first_steps(state: Mapping[str, Tensor]) -> dict[bool, int]:
    return {bool(k): int(state[f"fresh.{k}"]) for k in (0, 1) if f"fresh.{k}" in state}


class _Cycle:
    """The small least-squares problem min ‖βe₁ − Hy‖ of one cycle, made triangular by Givens rotations."""

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

    def residual_vector(self, basis: Tensor) -> Tensor:
        """Return V(βe₁ − Hy), the residual of the system, without another product."""
        y, k = self.minimizer(), len(self.columns)
        small = [self._beta] + [0.0] * k
        for column, weight in zip(self.columns, y, strict=True):
            for row, entry in enumerate(column):
                small[row] -= entry * weight
        return basis.new_tensor(small) @ basis[: k + 1]


def _orthogonalize(w: Tensor, basis: Tensor, k: int, cycle: _Cycle) -> bool:
    """Append w to the basis, orthogonal and of length 1; return True if it lies in the span of the basis."""
    before = math.sqrt(torch.dot(w, w))
    h = basis[: k + 1] @ w
    w.addmv_(basis[: k + 1].T, h, alpha=-1)
    after = math.sqrt(torch.dot(w, w))
    if after < _LEAST_LENGTH * before:
        again = basis[: k + 1] @ w
        w.addmv_(basis[: k + 1].T, again, alpha=-1)
        h = h + again
        after = math.sqrt(torch.dot(w, w))
    cycle.append([*h.tolist(), after])
    happy = not after > torch.finfo(w.dtype).eps * before
    if not happy:
        torch.mul(w, 1.0 / after, out=basis[k + 1])
    return happy
