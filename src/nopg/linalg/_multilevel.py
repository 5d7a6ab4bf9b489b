"""An approximate inverse of Λ from representative rows and ever larger cells of the state space.

Rows of P that lead to near places are alike: with S the rows of some representatives and Z weights that
interpolate between the nearest of them, P ≈ ZS. For that matrix Λ is inverted exactly by a small system,

    M = I + γ Z A⁻¹ S,    A = I − γ SZ,

and Mᵀ does the same for Λᵀ. A acts on the representatives. It is inverted in turn by steps

    x ← x + N(y − Ax),    N = I + Y (B⁻¹ − I) Wᵀ,    B = I − γ Wᵀ(SZ)Y,

with Y the indicators of cells of representatives and W weights that sum to 1 on each; B likewise by larger
cells, down to a few hundred, where it is inverted. W is the shape of μ inside a cell, from the visits of an
earlier policy, as in iterative aggregation and disaggregation (Takahashi 1975; Bertsekas and Castañon 1989).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg.linalg._levels import Aggregation, Level, cell_weights
from nopg.linalg._resolvent import Preconditioner
from nopg.linalg._rows import SparseRows
from nopg.linalg._solver import CALL

# Steps on each level but the last, for every power of ten of the horizon 1/(1 − γ).
_STEPS_PER_DECADE = 2.0
# Calls of torch in one step on one level.
_CALLS = 8


class MultilevelInverse(Preconditioner):
    """M for the values of one update; see the module.

    Args:
        S: Rows of the representatives.
        Z: Interpolation weights of the nodes between representatives.
        SZ: Their product, between representatives.
        levels: Cells, from the smallest to the largest.
        discount: γ.
        visits: Visits of the representatives, shape (m,).
    """

    def __init__(
        self,
        S: SparseRows,
        Z: SparseRows,
        SZ: SparseRows,
        *,
        levels: list[Level],
        discount: float,
        visits: Tensor,
    ) -> None:
        self._S, self._Z, self._discount, self._visits = S, Z, discount, visits
        self._matrices, self._aggregations = [SZ], list[Aggregation]()
        for level in levels:
            weights, visits = cell_weights(level, visits)
            self._aggregations.append(Aggregation.of(level, self._matrices[-1].values, weights))
            self._matrices.append(self._aggregations[-1].P)
        coarsest = self._matrices[-1].to_dense()
        identity = torch.eye(len(coarsest), dtype=coarsest.dtype, device=coarsest.device)
        self._inverse: Tensor = torch.linalg.inv(identity - discount * coarsest)
        self._num_steps = max(round(-_STEPS_PER_DECADE * math.log10(1.0 - discount)), 1)

        times, self.work = 1, S.pattern.num_entries + Z.pattern.num_entries + 4 * CALL
        for step, matrix in zip(self._aggregations, self._matrices, strict=False):
            times *= self._num_steps
            self.work += times * (matrix.pattern.num_entries + 4 * len(step.weights) + _CALLS * CALL)
        self.work += times * self._inverse.numel() // 8  # dense and in order: far cheaper per entry

    def apply(self, x: Tensor, *, transposed: bool) -> Tensor:
        """Return Mx ≈ Λ⁻¹x, or Mᵀx."""
        if transposed:
            product = self._S.apply_transposed(self._solve(0, self._Z.apply_transposed(x), transposed))
        else:
            product = self._Z.apply(self._solve(0, self._S.apply(x), transposed))
        return product.mul_(self._discount).add_(x)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the rows and the visits of the representatives, from which M is built."""
        return {"sampled": self._S.values.cpu(), "shape": self._visits.cpu()}

    def _solve(self, depth: int, y: Tensor, transposed: bool) -> Tensor:
        """Return about (I − γC)⁻¹y, C between representatives or between the cells of this depth."""
        if depth == len(self._aggregations):
            return y @ self._inverse if transposed else self._inverse @ y
        C, step = self._matrices[depth], self._aggregations[depth]
        x, rest = None, y
        for _ in range(self._num_steps):
            if x is not None:
                product = C.apply_transposed(x) if transposed else C.apply(x)
                rest = torch.add(y, product, alpha=self._discount).sub_(x)
            coarse = step.restrict(rest, transposed=transposed)
            coarse = self._solve(depth + 1, coarse, transposed).sub_(coarse)
            correction = step.prolong(coarse, transposed=transposed).add_(rest)
            x = correction if x is None else x.add_(correction)
        assert x is not None
        return x
