"""One polynomial over all inputs, from sums over groups of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.models._regression_rows import RowBatch

# Relative to the largest diagonal entry, and what keeps the sums of no rows regular.
_RIDGE, _NO_ROWS = 1e-9, 1e-300


@dataclass(frozen=True, slots=True)
class GlobalFit:
    """Sums of a linear regression of targets on features; those of two sets of rows add up.

    Attributes:
        grams: Σ wffᵀ of each group, shape (G, q, q).
        moments: Σ wfyᵀ of each group, shape (G, q, t).
        baseline: A regression (q, t) whose residuals are squared; it need not be that of the rows.
        squares: Σ we² of the residuals e of the baseline, shape (t,).
        num_rows: n.
        weight: Σ w.
    """

    grams: Tensor
    moments: Tensor
    baseline: Tensor
    squares: Tensor
    num_rows: int
    weight: float

    @classmethod
    def of(
        cls,
        rows: RowBatch,
        X: Tensor,
        columns: list[int],
        baseline: Tensor | None = None,
    ) -> GlobalFit:
        """Return the sums of some targets on features (n, q); the baseline is their own fit if not given."""
        weighted, Y = X * rows.weights[:, None], rows.targets[:, columns]
        parts = [rows.groups == g for g in range(rows.num_groups)]
        grams = torch.stack([weighted[part].T @ X[part] for part in parts])
        moments = torch.stack([weighted[part].T @ Y[part] for part in parts])
        baseline = _regression(grams.sum(dim=0), moments.sum(dim=0)) if baseline is None else baseline
        squares = rows.weights @ (Y - X @ baseline).square()
        return cls(grams, moments, baseline, squares, len(rows), float(rows.weights.sum()))

    def __add__(self, other: GlobalFit) -> GlobalFit:
        return GlobalFit(
            self.grams + other.grams,
            self.moments + other.moments,
            self.baseline,
            self.squares + other.squares,
            self.num_rows + other.num_rows,
            self.weight + other.weight,
        )

    def scaled(self, share: float, kept: Tensor) -> GlobalFit:
        """Return the sums in which every row of groups (G,) that are kept counts for a share."""
        by_group = share * kept.double().view(-1, 1, 1)
        return GlobalFit(
            by_group * self.grams,
            by_group * self.moments,
            self.baseline,
            share * self.squares,
            max(round(share * self.num_rows), 1),
            share * self.weight,
        )

    def coefficients(self, kept: Tensor) -> Tensor:
        """Return the regression (P, q, t) on parts (P, G) of the groups."""
        gram = torch.einsum("pg,gqr->pqr", kept.double(), self.grams)
        return _regression(gram, torch.einsum("pg,gqt->pqt", kept.double(), self.moments))

    @property
    def residual(self) -> Tensor:
        """Standard deviation (t,) of the residual of the fit to all rows."""
        gram, moment = self.grams.sum(dim=0), self.moments.sum(dim=0)
        change = _regression(gram, moment) - self.baseline
        gained = (change * (2.0 * (moment - gram @ self.baseline) - gram @ change)).sum(dim=0)
        n, q = self.num_rows, len(gram)
        variance = (self.squares - gained).clamp(min=0.0) / self.weight * n / max(n - q, 0.1 * n)
        return variance.sqrt()


def _regression(gram: Tensor, moment: Tensor) -> Tensor:
    """Return coefficients (…, q, t) from Σ wffᵀ and Σ wfyᵀ; the first feature is 1, whose level is free."""
    ridge = _RIDGE * gram.diagonal(dim1=-2, dim2=-1).amax(dim=-1, keepdim=True).clamp(min=_NO_ROWS)
    penalty = ridge.repeat_interleave(gram.shape[-1], dim=-1)
    penalty[..., 0] = _NO_ROWS
    solved: Tensor = torch.linalg.solve(gram + torch.diag_embed(penalty), moment)
    return solved
