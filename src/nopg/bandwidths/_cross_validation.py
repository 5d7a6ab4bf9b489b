"""The paper's own recipe: a density bandwidth for each dimension by itself, times a factor."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from nopg._seeding import generator
from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.errors import DataError
from nopg.kernels import Bandwidths

__all__ = ["paper_bandwidths"]

_ROWS_SAMPLED = 2_000
_NARROWEST, _WIDEST = 1e-3, 1.0


def paper_bandwidths(
    data: Transitions, *, state_factor: ArrayLike = 1.0, action_factor: ArrayLike = 1.0
) -> Bandwidths:
    """Return the supplement's bandwidths: per-dimension cross-validation times a constant factor.

    For reproduction only: densities of single columns are the wrong target for a regression, and the
    factors (1 on states and 20 to 50 on actions) are set by hand. Each column gets the h that maximises
    the leave-one-out likelihood of its Gaussian density estimate; equal values, as on a grid, are left
    out together, since otherwise h = 0 would win.

    Args:
        data: The transitions.
        state_factor: The supplement's state h_factor, a number or one per feature.
        action_factor: The supplement's action h_factor, a number or one per action.
    """
    states = _density_bandwidths(data.schema.features, data.features)
    actions = _density_bandwidths(data.schema.actions, data.actions)
    return Bandwidths.from_values(
        states * as_tensor(state_factor), actions * as_tensor(action_factor), source="the paper's recipe"
    )


def _density_bandwidths(names: tuple[str, ...], columns: torch.Tensor) -> torch.Tensor:
    return torch.stack(
        [_density_bandwidth(name, column) for name, column in zip(names, columns.T, strict=True)]
    )


def _density_bandwidth(name: str, column: torch.Tensor) -> torch.Tensor:
    if bool((column == column[0]).all()):
        raise DataError(f"column {name!r} holds one value only and has no density bandwidth; leave it out")
    spread = float(column.std(correction=0))
    values, counts = torch.unique((column / spread).round(decimals=9), return_counts=True)
    if len(values) > _ROWS_SAMPLED:
        kept = torch.randperm(len(values), generator=generator(0, "density"))[:_ROWS_SAMPLED]
        values, counts = values[kept], counts[kept]

    squared = (values[:, None] - values).square()
    log_counts = counts.double().log().repeat(len(values), 1).fill_diagonal_(-math.inf)

    def negative_log_likelihood(log_h: float) -> float:
        density = torch.logsumexp(log_counts - 0.5 * squared * math.exp(-2 * log_h), dim=1) - log_h
        return -float((counts * density).sum() / counts.sum())

    best = minimize_scalar(
        negative_log_likelihood,
        bounds=np.log([_NARROWEST, _WIDEST]),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return torch.tensor(math.exp(best.x) * spread, dtype=torch.float64)
