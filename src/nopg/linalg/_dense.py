"""LU factorisation of the whole matrix, for small n."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nopg.errors import SolverError
from nopg.linalg._resolvent import Resolvent
from nopg.linalg._scale import solve_at_safe_scale
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Pair, Solver


@dataclass(frozen=True, slots=True)
class DenseLU(Solver):
    """Exact up to rounding, in O(n³) time and O(n²) memory.

    Attributes:
        limit: Largest n that it accepts.
    """

    limit: int = 4_000

    def _solve(self, system: Resolvent, b: Tensor, *, tolerance: float, guess: Tensor | None) -> Solution:
        return self._back_substitute(self._factorize(system), system, b, tolerance=tolerance, guess=guess)

    def solve_both(
        self, system: Resolvent, b: Tensor, c: Tensor, *, tolerance: float, guesses: Pair | None = None
    ) -> tuple[Solution, Solution]:
        """Solve Λx = b and Λᵀy = c with one factorisation."""
        del guesses
        solve = partial(self._back_substitute, self._factorize(system))
        return (
            solve_at_safe_scale(solve, system, b, tolerance=tolerance, guess=None),
            solve_at_safe_scale(solve, system.T, c, tolerance=tolerance, guess=None),
        )

    def _factorize(self, system: Resolvent) -> tuple[Tensor, Tensor]:
        n = system.operator.size
        if n > self.limit:
            raise SolverError(
                f"dense LU would need {8 * n * n / 1e9:.1f} GB for n = {n}; its limit is {self.limit}. "
                "Use solver='bicgstab' or 'auto', or raise DenseLU(limit=…)"
            )
        P = system.operator
        Lambda = torch.eye(n, dtype=P.dtype, device=P.device) - system.discount * P.to_dense()
        factors, pivots = torch.linalg.lu_factor(Lambda)  # of Λ itself; Λᵀ uses the same factors
        return factors, pivots

    def _back_substitute(
        self,
        factors: tuple[Tensor, Tensor],
        system: Resolvent,
        b: Tensor,
        *,
        tolerance: float,
        guess: Tensor | None,
    ) -> Solution:
        del guess
        x = torch.linalg.lu_solve(*factors, b[:, None], adjoint=system.transposed)[:, 0]
        return system.certify(x, b, num_steps=0, tolerance=tolerance)
