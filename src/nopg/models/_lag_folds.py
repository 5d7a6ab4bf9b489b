"""Held-out errors of linear regressions, and which of them differ by more than their noise."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from nopg.models._lag_table import Numbers, Rows

FOLDS = 10
"""Number of blocks of successive rows that are held out in turn."""

# Blocks over which the standard error of a difference of errors is computed.
_BLOCKS = 40
# Ridge in units of the number of rows, of regressors in units of their spread.
_RIDGE = 1e-6
# Mean square errors, in units of the spread of what is predicted, that differ by less are equal.
_FLOOR = 1e-6


def folds_of(count: int) -> Rows:
    """Return the number of the fold of each of `count` successive rows."""
    return np.arange(count) * FOLDS // count


def standardized(columns: list[Numbers]) -> Numbers:
    """Return 1 and the columns from their means in units of their spread, shape (n, q + 1)."""
    table = np.stack([np.ones_like(columns[0]), *columns], axis=1)
    table[:, 1:] -= table[:, 1:].mean(axis=0)
    spread = table[:, 1:].std(axis=0)
    table[:, 1:] /= np.where(spread > 0, spread, 1.0)
    return table


def nested_coefficients(gram: Numbers, moments: Numbers, rows: int, drop: int) -> tuple[list[Numbers], float]:
    """Return ridge coefficients without the last 0, 1, …, `drop` regressors, and what is left of the last.

    Args:
        gram: Z'Z of the regressors, shape (q, q).
        moments: Z'Y of the targets, shape (q, t).
        rows: Number of rows behind both.
        drop: Number of regressors that are dropped at most.

    Returns:
        The coefficients (q − k, t) for each k, and the share of the variance of the last regressor that a
        linear function of the others leaves.
    """
    # The factor of a leading block is the leading block of the factor: one factorisation serves all.
    factor = cholesky(gram + _RIDGE * rows * np.eye(len(gram)), lower=True)
    forward = solve_triangular(factor, moments, lower=True)
    sizes = [len(gram) - k for k in range(drop + 1)]
    found = [solve_triangular(factor[:m, :m].T, forward[:m], lower=False) for m in sizes]
    return found, float(factor[-1, -1] ** 2 / rows)


def excess(squares: Numbers) -> tuple[Numbers, Numbers]:
    """Return by how much the mean square error of each candidate exceeds the best, and its standard error.

    Args:
        squares: Held-out squared errors of every candidate and row, in the order of time, shape (k, n).
    """
    count = squares.shape[1]
    block = np.arange(count) * _BLOCKS // count
    sizes = np.maximum(np.bincount(block, minlength=_BLOCKS), 1)
    apart = squares - squares[squares.mean(axis=1).argmin()]
    means = np.stack([np.bincount(block, one, _BLOCKS) for one in apart]) / sizes
    error = means.std(axis=1, ddof=1) / np.sqrt(min(_BLOCKS, count))
    return apart.mean(axis=1), error + _FLOOR
