"""Bandwidths with the least held-out error of the one-step targets (r, s′)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nopg._seeding import generator
from nopg.errors import DataError
from nopg.kernels._table import RegressionTable
from nopg.neighbors import neighbor_search

_log = logging.getLogger(__name__)
_Floats = npt.NDArray[np.float64]

# All pairs up to this many rows; above, sampled rows with lists of neighbours.
_ALL_PAIRS_UP_TO = 1_000
_ROWS_SAMPLED = 2_000
_PAIRS_AT_ONCE = 200_000
_NEIGHBORS = 256
# For longer episodes a tree of all other rows is built, for a sample of them.
_LONG_EPISODE = 768
_EPISODES_SAMPLED = 16
# The lists depend on h and h on the lists; a few rounds converge.
_ROUNDS = 4
_CONVERGED = 1e-3
# Bounds of h in units of the standard deviation of a column.
_NARROWEST, _WIDEST = 1e-4, 1e2


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """The result of the search.

    Attributes:
        bandwidths: h of each input in the units of the data, shape (d_f + d_a,).
        error: Mean squared error of held-out predictions, in units of the variance of each target.
    """

    bandwidths: Tensor
    error: float


def leave_one_out(
    table: RegressionTable, *, narrowest: Tensor | None = None, widest: Tensor | None = None
) -> LeaveOneOut:
    """Minimise the held-out error of Nadaraya-Watson regression over log h, with its gradient.

    Rows are left out one at a time, with their duplicates, or with their whole episode where there are
    episodes. The search starts at Scott's rule.

    Args:
        table: The regression table.
        narrowest: Smallest h of each input in the units of the data, shape (d,); 0 for no bound.
        widest: Largest h of each input, shape (d,); infinite for no bound.
    """
    from scipy.optimize import minimize  # slow to import

    if len(table.held_out_with.unique()) < 2:
        raise DataError(
            "bandwidths need at least two distinct transitions to compare; "
            "give more data, or set them by hand with Bandwidths.from_values(…)"
        )
    n, d = table.inputs.shape
    lower, upper = _log_bounds(table, narrowest, widest)
    log_h = np.clip(math.log(n ** (-1.0 / (d + 4))), lower, upper)

    error = math.inf
    rounds = 1 if n <= _ALL_PAIRS_UP_TO else _ROUNDS
    for number in range(rounds):
        pairs = _pairs(table, torch.as_tensor(np.exp(log_h)))
        found = minimize(
            lambda x, pairs=pairs: _error_and_gradient(table, pairs, x),
            log_h,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"ftol": 1e-13, "gtol": 1e-9, "maxiter": 100},
        )
        change, log_h, error = float(np.abs(found.x - log_h).max()), found.x, float(found.fun)
        _log.debug("round %d: held-out error %.4g, log h moved by %.2g", number, error, change)
        if change < _CONVERGED:
            break

    h = torch.as_tensor(np.exp(log_h))[table.columns] * table.scale
    return LeaveOneOut(bandwidths=h, error=error)


def nearest_held_out(table: RegressionTable, bandwidths: Tensor) -> float:
    """Return the median distance, in bandwidths, of a row to the nearest row of another group.

    Args:
        table: The regression table.
        bandwidths: h of each input in the units of the data, shape (d,).
    """
    free = torch.empty(table.num_bandwidths, dtype=torch.float64)
    free[table.columns] = bandwidths / table.scale
    pairs = _pairs(table, free)
    scaled = table.inputs * (table.scale / bandwidths)
    distances = [
        (scaled[rows, None] - scaled[others])
        .square()
        .sum(dim=2)
        .masked_fill(log_weights.isinf(), math.inf)
        .amin(dim=1)
        for rows, others, log_weights in pairs.blocks()
    ]
    return float(torch.cat(distances).median().sqrt())


def _log_bounds(
    table: RegressionTable, narrowest: Tensor | None, widest: Tensor | None
) -> tuple[_Floats, _Floats]:
    """Return the bounds of log h in units of the scale, one for each free bandwidth."""
    lower = np.full(table.num_bandwidths, _NARROWEST)
    upper = np.full(table.num_bandwidths, _WIDEST)
    columns, scale = table.columns.numpy(), table.scale.numpy()
    if narrowest is not None:
        lower[columns] = np.clip(narrowest.numpy() / scale, _NARROWEST, _WIDEST)
    if widest is not None:
        upper[columns] = np.clip(widest.numpy() / scale, lower[columns], _WIDEST)
    return np.log(lower), np.log(upper)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows to predict (m,) and the rows (m, K) to predict each from; log weight −∞ excludes one."""

    rows: Tensor
    others: Tensor
    log_weights: Tensor

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield rows, others and log weights in blocks that stay in the cache."""
        yield from zip(
            *(
                part.split(max(1, _PAIRS_AT_ONCE // self.others.shape[1]))
                for part in (self.rows, self.others, self.log_weights)
            ),
            strict=True,
        )


def _pairs(table: RegressionTable, h: Tensor) -> _Pairs:
    n = len(table.inputs)
    if n <= _ALL_PAIRS_UP_TO:
        rows = torch.arange(n)
        return _mask(table, rows, rows.expand(n, n))

    scaled = table.inputs / h[table.columns]
    episodes, lengths = torch.unique(table.held_out_with, return_counts=True)
    if int(lengths.max()) <= _LONG_EPISODE:
        rows = torch.randperm(n, generator=generator(0, "held-out rows"))[:_ROWS_SAMPLED]
        return _pairs_among_all(table, scaled, rows, longest=int(lengths.max()))
    return _pairs_by_episode(table, scaled, episodes)


def _pairs_among_all(table: RegressionTable, scaled: Tensor, rows: Tensor, *, longest: int) -> _Pairs:
    """Search one tree for enough neighbours to exclude a whole episode."""
    _, others = neighbor_search(scaled).nearest(scaled[rows], _NEIGHBORS + longest)
    pairs = _mask(table, rows, others.long())

    # Lists of equal length: the nearest rows that remain.
    order = pairs.log_weights.isinf().to(torch.int8).argsort(dim=1, stable=True)[:, :_NEIGHBORS]
    return _Pairs(rows, pairs.others.gather(1, order), pairs.log_weights.gather(1, order))


def _pairs_by_episode(table: RegressionTable, scaled: Tensor, episodes: Tensor) -> _Pairs:
    """Search, for a sample of episodes, a tree of all other rows."""
    chosen = episodes[torch.randperm(len(episodes), generator=generator(0, "episodes"))[:_EPISODES_SAMPLED]]
    rows = torch.isin(table.held_out_with, chosen).nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=generator(0, "held-out rows"))[:_ROWS_SAMPLED]]

    parts = []
    for episode in table.held_out_with[rows].unique():
        mine = rows[table.held_out_with[rows] == episode]
        elsewhere = (table.held_out_with != episode).nonzero()[:, 0]
        _, others = neighbor_search(scaled[elsewhere]).nearest(scaled[mine], _NEIGHBORS)
        parts.append(_mask(table, mine, elsewhere[others.long()]))
    shortest = min(part.others.shape[1] for part in parts)
    return _Pairs(
        torch.cat([part.rows for part in parts]),
        torch.cat([part.others[:, :shortest] for part in parts]),
        torch.cat([part.log_weights[:, :shortest] for part in parts]),
    )


def _mask(table: RegressionTable, rows: Tensor, others: Tensor) -> _Pairs:
    together = table.held_out_with[others] == table.held_out_with[rows][:, None]
    return _Pairs(rows, others, table.log_counts[others].masked_fill(together, -math.inf))


def _error_and_gradient(table: RegressionTable, pairs: _Pairs, log_h: _Floats) -> tuple[float, _Floats]:
    """Return the held-out error and its derivative by log h.

    For prediction ŷ = Σⱼ wⱼ yⱼ with wⱼ ∝ exp(−½Σₖ Dⱼₖ/hₖ²): ∂ŷ/∂log hₖ = Σⱼ wⱼ (yⱼ − ŷ) Dⱼₖ/hₖ².
    """
    x, y = table.inputs, table.targets
    inverse_squared = torch.as_tensor(np.exp(-2.0 * log_h))
    total, gradient = 0.0, torch.zeros(len(log_h), dtype=torch.float64)

    for rows, others, log_weights in pairs.blocks():
        squared = _squared_distances(x, rows, others, table.columns, len(log_h))  # (h, m, K)
        scaled = squared * inverse_squared[:, None, None]
        w = torch.softmax(log_weights - 0.5 * scaled.sum(dim=0), dim=1)  # (m, K)

        y_others = y[others]  # (m, K, t)
        deviation = torch.einsum("mk,mkt->mt", w, y_others) - y[rows]
        total += float(deviation.square().sum())
        # Σₜ (ŷ − y)(yⱼ − ŷ) of neighbour j.
        pull = torch.einsum("mkt,mt->mk", y_others - (deviation + y[rows])[:, None], deviation)
        gradient += 2.0 * torch.einsum("mk,hmk->h", w * pull, scaled)

    count = len(pairs.rows) * y.shape[1]
    return total / count, (gradient / count).numpy()


def _squared_distances(
    x: Tensor, rows: Tensor, others: Tensor, columns: Tensor, num_bandwidths: int
) -> Tensor:
    squared = torch.zeros(num_bandwidths, *others.shape, dtype=torch.float64)
    for k, column in enumerate(columns.tolist()):
        squared[column] += (x[rows, k][:, None] - x[others, k]).square()
    return squared
