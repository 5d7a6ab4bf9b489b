"""Cells of nearby rows and their weighted means."""

from __future__ import annotations

import heapq
import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import ArrayLike
from nopg.data._schema import Schema
from nopg.data._validation import as_vector
from nopg.errors import ArgumentError

_Floats = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
_Integers = npt.NDArray[np.int64]


class Cells:
    """A partition of n weighted rows into m cells, with the weighted mean of each.

    Means are offsets from the first row of a cell, so that of copies is exact.

    Attributes:
        first: A row of each cell, shape (m,).
        weights: The total weight of each cell, shape (m,).
    """

    def __init__(
        self, points: torch.Tensor, weights: torch.Tensor, terminated: torch.Tensor, count: int
    ) -> None:
        """Cut points (n, c) into at most `count` cells; none mixes terminated rows with others."""
        order, starts = _cut(points.numpy(), weights.numpy(), terminated.numpy(), count)
        self._order = torch.as_tensor(order)  # the rows, cell by cell
        self.first = self._order[torch.as_tensor(starts)]
        sizes = np.diff(np.append(starts, len(order)))
        self._cell = torch.repeat_interleave(torch.as_tensor(sizes))  # of the ordered rows, (n,)
        self._row_weights = weights[self._order]
        self.weights = self._sum(self._row_weights)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean (m, c) of values (n, c)."""
        total = self._sum(self._row_weights[:, None] * self._offsets(values))
        return values[self.first] + total / self.weights[:, None]

    def mean_states(self, states: torch.Tensor, schema: Schema) -> torch.Tensor:
        """Return the mean (m, d_s) of raw states (n, d_s), angles by their mean direction."""
        means = self.mean(states)
        for k, name in enumerate(schema.states):
            if name in schema.angles:
                radian = schema.angles[name] / (2 * math.pi)
                turns = self._offsets(states[:, k]) / radian
                x, y = self._sum(self._row_weights * turns.cos()), self._sum(self._row_weights * turns.sin())
                means[:, k] = states[self.first, k] + radian * torch.atan2(y, x)
        return means

    def sample(self, count: int) -> torch.Tensor:
        """Return `count` rows at even steps of weight through the cells."""
        passed = np.cumsum(self._row_weights.numpy())
        drawn = np.searchsorted(passed, (np.arange(count) + 0.5) / count * passed[-1])
        return self._order[torch.as_tensor(drawn)]

    def _offsets(self, values: torch.Tensor) -> torch.Tensor:
        return values[self._order] - values[self.first][self._cell]

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(len(self.first), *values.shape[1:]).index_add_(0, self._cell, values)


def condensing_scale(
    schema: Schema,
    features: torch.Tensor,
    actions: torch.Tensor,
    next_features: torch.Tensor,
    scale: ArrayLike | None,
) -> torch.Tensor:
    """Return the unit of every feature and action: as given, else its median step or its spread."""
    if scale is not None:
        unit, names = as_vector("scale", scale), (*schema.features, *schema.actions)
        if len(unit) != len(names) or not bool((unit.isfinite() & (unit > 0)).all()):
            raise ArgumentError(
                f"scale is {unit.tolist()}; give a positive number for each of {', '.join(names)}, or None"
            )
        return unit
    columns = torch.tensor(schema.feature_columns)
    steps = features.new_zeros(len(features), len(schema.states))
    steps.index_add_(1, columns, (next_features - features).square())
    step = steps.sqrt().median(dim=0).values[columns]
    spread = torch.cat([features, actions], dim=1).std(dim=0, correction=0)
    d_f = len(columns)
    unit = torch.cat([torch.where(step > 0, step, spread[:d_f]), spread[d_f:]])  # some states mostly rest
    return torch.where(unit > 0, unit, 1.0)


def _cut(points: _Floats, weights: _Floats, ended: _Flags, count: int) -> tuple[_Integers, _Integers]:
    """Return the rows cell by cell, and the position at which each of at most `count` cells starts.

    The first two cells are the terminated rows and the others. Then the cell with the largest squared
    distance from its mean along one column is cut at that mean, repeatedly. Each side gets at least an
    eighth of the rows, so no row is moved more than O(log n) times.
    """
    order = np.argsort(ended, kind="stable")
    points, weights = points[order], weights[order]

    def measured(start: int, end: int) -> tuple[float, int, int, int, float]:
        x, w = points[start:end], weights[start:end]
        offsets = x - x[0]  # exactly 0 for copies
        mean = w @ offsets / w.sum()
        error = w @ np.square(offsets - mean)
        side = int(error.argmax())
        return -float(error[side]), start, end, side, float(x[0, side] + mean[side])

    bounds = sorted({0, int((~ended).sum()), len(points)})
    heap = [measured(*pair) for pair in pairwise(bounds)]
    if count < len(heap):
        raise ArgumentError("one row cannot represent terminated rows and others; keep 2 at least")
    heapq.heapify(heap)
    while len(heap) < count and heap[0][0] < 0.0:
        _, start, end, side, mean = heapq.heappop(heap)
        column = points[start:end, side]
        least = max(1, (end - start) // 8)
        cut = min(max(int(np.count_nonzero(column <= mean)), least), end - start - least)
        halves = np.argpartition(column, cut)
        for array in (points, weights, order):
            array[start:end] = array[start:end][halves]
        heapq.heappush(heap, measured(start, start + cut))
        heapq.heappush(heap, measured(start + cut, end))
    return order, np.array(sorted(start for _, start, *_ in heap), dtype=np.int64)
