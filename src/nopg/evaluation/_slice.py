"""Grids over one or two state columns, with the other columns held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.bellman import Solution
from nopg.data import Schema
from nopg.data._held_out import spread_rows
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel

__all__ = ["StateSlice", "slice_states"]

# One place in a thousand at either end does not count: a spike does not stretch the axis.
_PLACES_PER_SPIKE = 1_000
# Values along each axis, by the number of axes.
_POINTS = {1: 401, 2: 61}
# Unknown mass above which a place is outside the data, and how many places are used.
_MOSTLY, _MOST_PLACES = 0.5, 5_000


@dataclass(frozen=True, slots=True, eq=False)
class StateSlice:
    """A grid over one or two state columns.

    Attributes:
        schema: Names of the columns.
        columns: The columns that vary, the horizontal one first.
        axes: The values of each, ascending.
        held: The value of every other column, by name.
    """

    schema: Schema
    columns: tuple[str, ...]
    axes: tuple[FloatArray, ...]
    held: Mapping[str, float]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(axis) for axis in self.axes)

    def states(self) -> torch.Tensor:
        """Return the raw states (m, d_s) of the grid, the last axis varying fastest."""
        grids = np.meshgrid(*self.axes, indexing="ij")
        varied = {name: grid.ravel() for name, grid in zip(self.columns, grids, strict=True)}
        states = torch.empty(math.prod(self.shape), len(self.schema.states), dtype=torch.float64)
        for k, name in enumerate(self.schema.states):
            states[:, k] = torch.as_tensor(varied[name]) if name in varied else self.held[name]
        return states

    def project(self, states: torch.Tensor) -> FloatArray:
        """Return where raw states (m, d_s) lie on the axes, angles on their turn, shape (m, axes)."""
        places = []
        for name, axis in zip(self.columns, self.axes, strict=True):
            column, period = states[:, self.schema.states.index(name)].numpy(), self.schema.angles.get(name)
            if period is not None:
                beyond = (column - axis[0]) % period
                beyond[beyond > (1 - 1e-9) * period] = 0.0  # a rounding short of the first value
                column = axis[0] + beyond
            places.append(column)
        return np.stack(places, axis=1)

    def near(self, states: torch.Tensor, metric: GaussianKernel, *, within: float) -> torch.Tensor:
        """Return which raw states (m, d_s) lie near the held values in a metric, shape (m,)."""
        columns = [self.schema.states[column] in self.held for column in self.schema.feature_columns]
        here = self.schema.encode(self.states()[:1])
        away = metric.scale(self.schema.encode(states) - here)[:, columns]
        return away.square().sum(dim=1).sqrt() <= within


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """States that a slice may pass through: logged states, and states that the policy visits.

    Attributes:
        states: Raw next states inside the data, or all if there are none, shape (n, d_s).
        scaled: The same in the metric of the problem, shape (n, d_f).
        visited: States that the policy visits, in the same metric, shape (v, d_f).
        visits: Their discounted weights, shape (v,).
        starts: Raw initial states, shape (n₀, d_s).
    """

    states: torch.Tensor
    scaled: torch.Tensor
    visited: torch.Tensor
    visits: torch.Tensor
    starts: torch.Tensor

    @classmethod
    def of(cls, solution: Solution, schema: Schema) -> _Places:
        problem = solution.problem
        data = problem.data
        if len(data) > _MOST_PLACES:
            data = data.take(spread_rows(data, _MOST_PLACES, purpose="places"))
        features = schema.encode(data.next_states)
        known = solution.unknown_at(features) <= _MOSTLY
        features = features[known] if bool(known.any()) else features
        visited, visits = solution.visited()
        return cls(
            schema.decode(features),  # angles within half a period of 0
            problem.metric.scale(features),
            problem.metric.scale(schema.encode(visited)),
            visits,
            schema.decode(schema.encode(problem.initial_states)),
        )


def slice_states(
    solution: Solution,
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    held: Mapping[str, float] | None = None,
    points: int | None = None,
) -> StateSlice:
    """Return a grid through the states that a solution knows.

    An axis covers the data and the initial states. An angle has one period, [−T/2, T/2] or its declared
    bounds if they are one period apart; if the data cover less than half of it, that arc.

    Args:
        solution: The solution.
        schema: Of the data behind it.
        columns: One or two state columns. By default the two along which the discounted visits spread most,
            in the metric of the problem.
        held: Values of other columns. By default those of the place nearest to the median of the discounted
            visits, which lies in the data.
        points: Number of values of each axis; 61, or 401 for a single column.
    """
    if points is not None and points < 2:
        raise ArgumentError(f"points is {points}; an axis needs at least 2")
    given = _checked(held or {}, schema)
    places = _Places.of(solution, schema)
    if columns is None:
        chosen = _widest(places, schema, [name for name in schema.states if name not in given])
    else:
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
        _check_columns(chosen, given, schema)
    others = [name for name in schema.states if name not in chosen]
    default = _typical(places, schema, [name for name in others if name not in given])
    count = points or _POINTS[len(chosen)]
    axes = tuple(_axis(places, schema, name, count) for name in chosen)
    values = given | default
    return StateSlice(schema, chosen, axes, {name: values[name] for name in others})


def _checked(held: Mapping[str, float], schema: Schema) -> dict[str, float]:
    _check_known(held, schema)
    for name, value in held.items():
        if not math.isfinite(value):
            raise ArgumentError(f"{name!r} is held at {value}; give a finite number")
    return {name: float(value) for name, value in held.items()}


def _check_columns(columns: tuple[str, ...], held: Mapping[str, float], schema: Schema) -> None:
    _check_known(columns, schema)
    if len(columns) not in {1, 2} or len(set(columns)) < len(columns):
        names = list(schema.states)
        raise ArgumentError(f"columns is {list(columns)}; give one or two different ones of {names}")
    if both := [name for name in columns if name in held]:
        raise ArgumentError(f"{both} cannot both vary and be held; take it out of columns or of held")


def _check_known(names: Iterable[str], schema: Schema) -> None:
    for name in names:
        if name not in schema.states:
            raise ArgumentError(f"there is no state column {name!r}; the columns are {list(schema.states)}")


def _widest(places: _Places, schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Return the two columns along which the visits spread most, in the order of the data."""
    if not names:
        raise ArgumentError(f"every column of {list(schema.states)} is held; let at least one vary")
    share = (places.visits / places.visits.sum())[:, None]
    away = places.visited - (share * places.visited).sum(dim=0)
    by_feature = (share * away.square()).sum(dim=0).tolist()
    spread = dict.fromkeys(schema.states, 0.0)
    for column, variance in zip(schema.feature_columns, by_feature, strict=True):
        spread[schema.states[column]] += variance
    widest = sorted(names, key=lambda name: -spread[name])[:2]
    return tuple(name for name in schema.states if name in widest)


def _typical(places: _Places, schema: Schema, names: Sequence[str]) -> dict[str, float]:
    """Return the values of columns at the logged place nearest to the median of the visits."""
    if not names:
        return {}
    features = [k for k, column in enumerate(schema.feature_columns) if schema.states[column] in names]
    middle = torch.stack([_median(column, places.visits) for column in places.visited[:, features].T])
    distance = (places.scaled[:, features] - middle).square().sum(dim=1)
    nearest = places.states[distance.argmin()]
    return {name: float(nearest[schema.states.index(name)]) for name in names}


def _median(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted median."""
    ordered, order = values.sort()
    reached = weights[order].cumsum(dim=0)
    return ordered[int((reached < 0.5 * reached[-1]).sum())]


def _axis(places: _Places, schema: Schema, name: str, points: int) -> FloatArray:
    column = schema.states.index(name)
    known, starts = places.states[:, column].numpy(), places.starts[:, column].numpy()
    if name in schema.angles:
        low, high = _arc(known, starts, schema.angles[name], schema.bounds.get(name))
    else:
        (a, b), (c, d) = _range(known), _range(starts)
        low, high = min(a, c), max(b, d)
    if high <= low:  # a column that never changes
        margin = 0.5 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return np.linspace(low, high, points)


def _range(values: FloatArray) -> tuple[float, float]:
    ordered, spikes = np.sort(values), len(values) // _PLACES_PER_SPIKE
    return float(ordered[spikes]), float(ordered[-1 - spikes])


def _arc(
    known: FloatArray, starts: FloatArray, period: float, bounds: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the ends of the arc of all angles, or of one period where the arc is over half of it."""
    whole = (-period / 2, period / 2)
    if bounds is not None and math.isclose(bounds[1] - bounds[0], period, rel_tol=1e-3):
        whole = bounds
    angles = np.sort(np.concatenate([known, starts]) % period)
    gaps = np.diff(angles, append=angles[0] + period)
    first = angles[(int(gaps.argmax()) + 1) % len(angles)]
    (a, b), (c, d) = _range((known - first) % period), _range((starts - first) % period)
    low, high = first + min(a, c), first + max(b, d)
    if high - low >= period / 2:
        return whole
    turns = period * math.floor(((low + high) / 2 - whole[0]) / period)
    return low - turns, high - turns
