"""Many transitions as few weighted ones: the means of cells in the space of (s, a, s′)."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import ArrayLike
from nopg.data._schema import Schema
from nopg.data._validation import as_vector
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["condense"]

_Floats = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]


def condense(data: Transitions, num_rows: int, scale: ArrayLike | None = None) -> Transitions:
    """Return at most `num_rows` weighted rows; `Transitions.condense` says what they are."""
    if num_rows < 1:
        raise ArgumentError(f"num_rows is {num_rows}; keep at least 1 row")
    if len(data) <= num_rows:
        return data
    unit = _units(data) if scale is None else _checked_scale(data, scale)
    of_states = unit[: len(data.schema.features)]
    rows = torch.cat([data.features, data.actions, data.next_features], dim=1)
    points = rows / torch.cat([unit, of_states])
    w = torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights
    order, starts = _cells(points.numpy(), w.numpy(), data.terminated.numpy(), num_rows)
    mean = _CellMeans(data.schema, w, order, starts)

    firsts = mean.firsts
    return replace(
        data,
        states=mean.states(data.states),
        actions=mean(data.actions),
        rewards=mean(data.rewards[:, None])[:, 0],
        next_states=mean.states(data.next_states),
        terminated=data.terminated[firsts],
        truncated=torch.zeros(len(firsts), dtype=torch.bool),
        episodes=None,
        initial_states=_starts(data, w, order, num_rows),
        weights=mean.weights,
    )


def _starts(data: Transitions, weights: torch.Tensor, order: _Rows, count: int) -> torch.Tensor:
    """Return the starts of the data or, where every state is one, so many drawn evenly from the cells."""
    if data.initial_states is not None or data.episodes is not None:
        return data.starts
    passed = np.cumsum(weights.numpy()[order])
    drawn = np.searchsorted(passed, (np.arange(count) + 0.5) / count * passed[-1])
    return data.states[torch.as_tensor(order[drawn])]


class _CellMeans:
    """Weighted means over cells, counted from the first row of each: that of copies is exact."""

    def __init__(self, schema: Schema, weights: torch.Tensor, order: _Rows, starts: _Rows) -> None:
        self._schema, self._order = schema, torch.as_tensor(order)
        self.firsts = self._order[torch.as_tensor(starts)]  # (m,)
        sizes = np.diff(np.append(starts, len(order)))
        self._cell = torch.repeat_interleave(torch.as_tensor(sizes))  # of the ordered rows, (n,)
        self._row_weights = weights[self._order]
        self.weights = self._sum(self._row_weights)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean (m, c) of values (n, c)."""
        total = self._sum(self._row_weights[:, None] * self._offsets(values))
        return values[self.firsts] + total / self.weights[:, None]

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """Return the mean (m, d_s) of raw states (n, d_s), angles by their mean direction."""
        means = self(states)
        for k, name in enumerate(self._schema.states):
            if name in self._schema.angles:
                radian = self._schema.angles[name] / (2 * math.pi)
                turns = self._offsets(states[:, k]) / radian
                x, y = self._sum(self._row_weights * turns.cos()), self._sum(self._row_weights * turns.sin())
                means[:, k] = states[self.firsts, k] + radian * torch.atan2(y, x)
        return means

    def _offsets(self, values: torch.Tensor) -> torch.Tensor:
        return values[self._order] - values[self.firsts][self._cell]

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(len(self.firsts), *values.shape[1:]).index_add_(0, self._cell, values)


def _cells(points: _Floats, weights: _Floats, ended: _Flags, count: int) -> tuple[_Rows, _Rows]:
    """Return the rows in the order of their cells, and where each of at most `count` cells starts.

    Ends of the task and steps that go on begin as two cells. Then the cell with the largest squared distance
    from its mean along one side is cut there at its mean, over and over. An eighth of its rows at least goes
    to either side, so no row is moved more than O(log n) times.
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
        raise ArgumentError(
            "one row cannot stand for ends of the task and for steps that go on; keep 2 at least"
        )
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


def _units(data: Transitions) -> torch.Tensor:
    """Return the unit of every feature and action: a median step of the state, the spread of the action."""
    columns = torch.tensor(data.schema.feature_columns)
    steps = torch.zeros_like(data.states)
    steps.index_add_(1, columns, (data.next_features - data.features).square())
    step = steps.sqrt().median(dim=0).values[columns]
    spread = torch.cat([data.features, data.actions], dim=1).std(dim=0, correction=0)

    d_f = len(columns)
    unit = torch.cat([torch.where(step > 0, step, spread[:d_f]), spread[d_f:]])  # some states mostly rest
    return torch.where(unit > 0, unit, 1.0)


def _checked_scale(data: Transitions, scale: ArrayLike) -> torch.Tensor:
    unit, names = as_vector("scale", scale), (*data.schema.features, *data.schema.actions)
    if len(unit) != len(names) or not bool((unit.isfinite() & (unit > 0)).all()):
        raise ArgumentError(
            f"scale is {unit.tolist()}; give a positive number for each of {', '.join(names)}, or None"
        )
    return unit
