"""The paper's bandwidths: a density bandwidth of each dimension, times a factor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nopg import Bandwidths
from nopg._seeding import generator
from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.errors import DataError

_ROWS_SAMPLED = 2_000
_NARROWEST, _WIDEST = 1e-3, 1.0
# Of the authors' released code: folds, candidates, and the widest of them in widths by Silverman's rule.
_FOLDS, _CANDIDATES, _WIDEST_CANDIDATE = 5, 29, 1.5
_ENTRIES_AT_ONCE = 1 << 22


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
    states = _density_bandwidths(data.schema.features, data.features, _density_bandwidth)
    actions = _density_bandwidths(data.schema.actions, data.actions, _density_bandwidth)
    return Bandwidths.from_values(
        states * as_tensor(state_factor), actions * as_tensor(action_factor), source="the paper's recipe"
    )


def released_bandwidths(
    data: Transitions, *, state_factor: ArrayLike = 1.0, action_factor: ArrayLike = 1.0
) -> Bandwidths:
    """Return the bandwidths of the authors' released code, which specifies what the supplement leaves open.

    For reproduction only. Each column gets, of 29 widths up to 1.5 times Silverman's, the one that makes five
    folds of consecutive rows likeliest (github.com/jacarvalho/nopg). A value that stands in several folds is
    its own neighbour there, so on grids the narrowest width wins, a 29th of the widest. The factor 50 on
    actions makes up for that, the factor 1 on states does not.

    Args:
        data: The transitions; the order of the rows matters.
        state_factor: The supplement's state h_factor, a number or one per feature.
        action_factor: The supplement's action h_factor, a number or one per action.

    Example:
        >>> from nopg.envs import Pendulum
        >>> from nopg.envs import collect_grid
        >>> h = released_bandwidths(collect_grid(Pendulum(), (20, 20, 2)), action_factor=50.0)
        >>> [round(float(width), 2) for width in h.states], round(float(h.actions[0]), 2)
        ([0.3, 0.29, 0.07], 1.44)
    """
    states = _density_bandwidths(data.schema.features, data.features, _folded_bandwidth)
    actions = _density_bandwidths(data.schema.actions, data.actions, _folded_bandwidth)
    return Bandwidths.from_values(
        states * as_tensor(state_factor),
        actions * as_tensor(action_factor),
        source="the authors' released code",
    )


def _density_bandwidths(names: tuple[str, ...], columns: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    for name, column in zip(names, columns.T, strict=True):
        if bool((column == column[0]).all()):
            raise DataError(
                f"column {name!r} holds one value only and has no density bandwidth; leave it out"
            )
    return torch.stack([rule(column) for column in columns.T])


def _folded_bandwidth(column: Tensor) -> Tensor:
    """Return the candidate under which each fold is likeliest, given the others."""
    n = len(column)
    silverman = float(column.std()) * (0.75 * n) ** -0.2
    candidates = torch.arange(1, _CANDIDATES + 1) * (_WIDEST_CANDIDATE * silverman / _CANDIDATES)
    likelihood = torch.zeros(_CANDIDATES, dtype=torch.float64)
    for held_out in torch.arange(n).tensor_split(_FOLDS):
        kept = torch.ones(n, dtype=torch.bool)
        kept[held_out] = False
        values, counts = torch.unique(column[kept], return_counts=True)
        places, times = torch.unique(column[held_out], return_counts=True)
        some = max(_ENTRIES_AT_ONCE // len(values), 1)
        for part, weight in zip(places.split(some), times.split(some), strict=True):
            squared = (part[:, None] - values).square()
            for k, h in enumerate(candidates.tolist()):
                density = torch.logsumexp(counts.log() - 0.5 * squared / h**2, dim=1) - math.log(h)
                likelihood[k] += (weight * density).sum()
    best: Tensor = candidates[likelihood.argmax()]
    return best.double()


def _density_bandwidth(column: Tensor) -> Tensor:
    from scipy.optimize import minimize_scalar  # slow to import

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
