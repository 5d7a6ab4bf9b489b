"""Linear systems of the Bellman equation, solved and certified (`theorem:fixedpoint`).

    Λ = I − γP,    Λx = b  or  Λᵀx = b,    ‖Λ⁻¹‖∞ = ‖Λ⁻ᵀ‖₁ ≤ 1/(1 − γρ)

P has non-negative entries and row sums of at most ρ ≤ 1, so Λ is an M-matrix, and the residual of any x
bounds its error: ‖x − x*‖ ≤ ‖b − Λx‖/(1 − γρ), in the maximum norm for Λ and in the sum norm for Λᵀ. Λ is
not symmetric: conjugate gradient, which the paper names, is not valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, SuperLU, bicgstab, gmres, spilu

from nopg._typing import FloatArray
from nopg.errors import SolverError

# Up to this many rows one dense factorisation serves both systems.
_DENSE_UP_TO = 200
# The factors that precondition larger systems leave out entries of P below this share of the largest, and of
# what is left what `spilu` finds negligible.
_DROPPED, _NEGLIGIBLE, _FILL = 1e-2, 1e-3, 10.0
# New factors take about as long as so many steps: the equations of later updates may need as many more.
_MORE_STEPS = 80
_MOST_STEPS, _RESTART, _ATTEMPTS = 200, 60, 3
_LIMITS = np.finfo(np.float64)


@dataclass(frozen=True, slots=True)
class SolvedSystem:
    """A solution of Λx = b with its certificate."""

    value: FloatArray  # x, shape (n,)
    num_steps: int  # Steps of the iteration; 0 for a direct solve
    residual: float  # ‖b − Λx‖, in the maximum norm for Λ and the sum norm for Λᵀ
    error_bound: float  # A proven bound on ‖x − x*‖ in the same norm
    converged: bool  # Whether the residual reached the requested tolerance


@dataclass(frozen=True)
class Resolvent:
    """Λ = I − γP, or its transpose."""

    P: sparse.csr_array  # Non-negative, with row sums of at most 1
    discount: float  # γ in [0, 1)
    transposed: bool = False  # Whether this is Λᵀ

    @cached_property
    def T(self) -> Resolvent:
        """The transposed system."""
        other = Resolvent(self.P, self.discount, not self.transposed)
        other.__dict__.update(largest_row_sum=self.largest_row_sum, T=self)
        return other

    def apply(self, x: FloatArray) -> FloatArray:
        """Return Λx, or Λᵀx."""
        product: FloatArray = self.P.T @ x if self.transposed else self.P @ x
        return x - self.discount * product

    def norm(self, x: FloatArray) -> float:
        """Return the norm in which the inverse is bounded."""
        return float(np.abs(x).sum() if self.transposed else np.abs(x).max(initial=0.0))

    @cached_property
    def largest_row_sum(self) -> float:
        """ρ, at most 1 up to rounding."""
        return float(self.P.sum(axis=1).max(initial=0.0))

    @property
    def inverse_bound(self) -> float:
        """An upper bound on the norm of the inverse, rounding included."""
        gap = 1.0 - self._propagated
        return 1.0 / gap if gap > 0 else float("inf")

    def certify(self, x: FloatArray, b: FloatArray, *, num_steps: int, tolerance: float) -> SolvedSystem:
        """Return x with its error bound; that the residual is rounded is in it, denormal numbers too."""
        residual, scale = self.norm(b - self.apply(x)), self.norm(b)
        entries = len(b) if self.transposed else 1
        denormal = entries * self._terms * float(_LIMITS.smallest_normal) * float(_LIMITS.eps)
        rounding = self._rounding * (scale + (1.0 + self._propagated) * self.norm(x)) + denormal
        return SolvedSystem(
            value=x,
            num_steps=num_steps,
            residual=residual,
            error_bound=self.inverse_bound * (residual + rounding),
            converged=residual <= tolerance * scale + rounding,
        )

    @property
    def _propagated(self) -> float:
        """A bound on ‖γP‖, rounding included."""
        return self.discount * self.largest_row_sum * (1.0 + 2.0 * self._rounding)

    @cached_property
    def _terms(self) -> int:
        """Products in the sum of one entry of Px or Pᵀx, and a few more."""
        by_row, by_column = np.diff(self.P.indptr), np.bincount(self.P.indices, minlength=1)
        return int(max(by_row.max(initial=0), by_column.max())) + 8

    @property
    def _rounding(self) -> float:
        """Relative rounding error of one entry of b − Λx (Higham 2002, section 3.1, doubled)."""
        return self._terms * float(_LIMITS.eps)


class Solver:
    """Solves Λx = b and Λᵀy = c: dense LU for few rows, else BiCGSTAB, and GMRES where that breaks down.

    The incomplete factors that precondition an iteration are kept for later equations, until these have taken
    as many more steps as new factors would cost.
    """

    def __init__(self) -> None:
        self._factors: SuperLU | None = None
        self._first_steps: dict[bool, int] = {}
        self._more_steps = 0

    def solve_both(
        self,
        system: Resolvent,
        b: FloatArray,
        c: FloatArray,
        *,
        tolerance: float = 1e-10,
        guesses: tuple[FloatArray, FloatArray] | None = None,
    ) -> tuple[SolvedSystem, SolvedSystem]:
        """Return x and y with their certificates.

        Args:
            system: Λ.
            b: Right-hand side of Λx = b.
            c: Right-hand side of Λᵀy = c.
            tolerance: Residual to reach, relative to the right-hand side.
            guesses: x and y of a nearby equation.
        """
        sides = zip((system, system.T), (b, c), guesses or (None, None), strict=True)
        if len(b) <= _DENSE_UP_TO:
            factors = linalg.lu_factor(np.eye(len(b)) - system.discount * system.P.toarray())
            found = [_direct(factors, one, side, tolerance) for one, side, _ in sides]
        else:
            found = [self.iterate(one, side, tolerance, guess) for one, side, guess in sides]
        for name, solution in zip(("q", "μ"), found, strict=True):
            if not solution.converged:
                raise SolverError(
                    f"the solve for {name} stopped at a residual of {solution.residual:.1e}, short of the "
                    f"relative tolerance {tolerance:.0e}; a smaller discount or wider bandwidths help, and "
                    "model='local' needs no such solve"
                )
        return found[0], found[1]

    def iterate(
        self, system: Resolvent, b: FloatArray, tolerance: float, guess: FloatArray | None = None
    ) -> SolvedSystem:
        """Return the solution of one system, certified whether or not it has reached the tolerance."""
        size = float(np.abs(b).max(initial=0.0))
        if size == 0.0:
            return system.certify(np.zeros_like(b), b, num_steps=0, tolerance=tolerance)
        target, x = b / size, np.zeros_like(b) if guess is None else guess / size
        # ‖r‖∞ ≤ ‖r‖₂ and ‖r‖₁ ≤ √n ‖r‖₂.
        goal = 0.9 * tolerance * system.norm(target) / (len(b) ** 0.5 if system.transposed else 1.0)
        steps = 0

        def count(_: object) -> None:
            nonlocal steps
            steps += 1

        operator = LinearOperator(system.P.shape, system.apply, dtype=np.float64)
        side = "T" if system.transposed else "N"
        for attempt in range(_ATTEMPTS):
            if attempt or self._factors is None:
                self._factors, self._first_steps, self._more_steps, steps = _factors(system), {}, 0, 0
            solve = self._factors.solve
            M = LinearOperator(system.P.shape, lambda r, f=solve: f(np.ravel(r), side), dtype=np.float64)
            asked = {"rtol": 0.0, "atol": goal, "maxiter": _MOST_STEPS, "M": M, "callback": count}
            if attempt < _ATTEMPTS - 1:
                x, _ = bicgstab(operator, target, x, **asked)
            else:
                x, _ = gmres(operator, target, x, restart=_RESTART, callback_type="pr_norm", **asked)
            found = system.certify(x * size, b, num_steps=steps, tolerance=tolerance)
            if found.converged:
                break
            if not np.isfinite(x).all():
                x = np.zeros_like(b)
        first = self._first_steps.setdefault(system.transposed, steps)
        self._more_steps += max(steps - first, 0)
        if self._more_steps > _MORE_STEPS:
            self._factors = None
        return found


def _direct(factors: Any, system: Resolvent, b: FloatArray, tolerance: float) -> SolvedSystem:
    """Return the solution by dense factors of Λ."""
    # Over its largest entry, so that nothing overflows or is denormal on the way.
    size = float(np.abs(b).max()) or 1.0
    x = linalg.lu_solve(factors, b / size, trans=system.transposed) * size
    return system.certify(x, b, num_steps=0, tolerance=tolerance)


def _factors(system: Resolvent) -> SuperLU:
    """Return incomplete factors of Λ."""
    P = system.P.tocsc(copy=True)
    P.data[P.data < _DROPPED * P.data.max(initial=0.0)] = 0.0
    P.eliminate_zeros()
    Lambda = sparse.eye_array(P.shape[0], format="csc") - system.discount * P
    return spilu(Lambda, drop_tol=_NEGLIGIBLE, fill_factor=_FILL)
