"""One polynomial over all inputs, from statistics of groups of rows that add up."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.models._regression_rows import RegressionRows

__all__ = ["GlobalFit"]

_RIDGE = 1e-9


@dataclass(frozen=True, slots=True)
class GlobalFit:
    """Statistics of a linear regression of targets on features.

    Attributes:
        features: f of every row, shape (n, q).
        grams: Σ wffᵀ of each group, shape (G, q, q).
        moments: Σ wfyᵀ of each group, shape (G, q, t).
    """

    features: Tensor
    grams: Tensor
    moments: Tensor

    @classmethod
    def of(cls, rows: RegressionRows, used: Tensor, degree: int, columns: list[int]) -> GlobalFit:
        """Return the statistics of some targets on polynomials of the inputs in use."""
        X = rows.space.features(rows.inputs, used, degree)
        weighted, Y = X * rows.weights[:, None], rows.targets[:, columns]
        parts = [rows.groups == g for g in range(rows.num_groups)]
        return cls(
            X,
            torch.stack([weighted[part].T @ X[part] for part in parts]),
            torch.stack([weighted[part].T @ Y[part] for part in parts]),
        )

    def coefficients(self, kept: Tensor) -> Tensor:
        """Return the regression (P, q, t) on parts (P, G) of the groups."""
        gram = torch.einsum("pg,gqr->pqr", kept.double(), self.grams)
        moment = torch.einsum("pg,gqt->pqt", kept.double(), self.moments)
        ridge = _RIDGE * gram.diagonal(dim1=1, dim2=2).amax(dim=1).clamp(min=1e-300)
        eye = torch.eye(gram.shape[1], dtype=torch.float64)
        solved: Tensor = torch.linalg.solve(gram + ridge[:, None, None] * eye, moment)
        return solved

    def residual(self, rows: RegressionRows, columns: list[int]) -> Tensor:
        """Return the standard deviation (t,) of the residual of the fit to all rows."""
        fit = self.coefficients(torch.ones(1, len(self.grams), dtype=torch.bool))[0]
        left = rows.targets[:, columns] - self.features @ fit
        n, q = self.features.shape
        variance: Tensor = (rows.weights @ left.square()) / rows.weights.sum() * n / max(n - q, 0.1 * n)
        return variance.sqrt()
