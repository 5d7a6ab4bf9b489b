"""Values, visits, actions and what is unknown over one or two state columns, the others held."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import FloatArray
from nopg.bellman import Solution
from nopg.data import Schema
from nopg.data._held_out import spread_rows
from nopg.errors import ArgumentError

Estimate = Literal["actions", "value", "visitation"]
"""An estimate on a map."""

# One row in a thousand at either end does not count: a spike does not stretch the axis.
_ROWS_PER_SPIKE = 1_000
# Values along each axis, by the number of axes.
_POINTS = {1: 401, 2: 61}
# Unknown mass above which a row is outside the data, and how many rows are used.
_MOSTLY, _MOST_ROWS = 0.5, 5_000


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

    def near(self, states: torch.Tensor, widths: torch.Tensor, *, within: float) -> torch.Tensor:
        """Return which raw states (m, d_s) lie within so many widths of the held values, shape (m,)."""
        columns = [self.schema.states[column] in self.held for column in self.schema.feature_columns]
        here = self.schema.encode(self.states()[:1])
        away = ((self.schema.encode(states) - here) / widths)[:, columns]
        return away.square().sum(dim=1).sqrt() <= within


@dataclass(frozen=True, slots=True, eq=False)
class StateMap:
    """Estimates of a solution on a grid over one or two state columns; arrays have the shape of the grid.

    Attributes:
        slice: The grid, and where the other columns are held.
        value: V̂.
        visitation: μ̃, the discounted visits.
        unknown: Unknown share of the state and the action of the policy, within its bounds.
        actions: Actions of the policy without exploration; the action columns last.
        starts: Raw initial states, shape (n₀, d_s).
    """

    slice: StateSlice
    value: FloatArray
    visitation: FloatArray
    unknown: FloatArray
    actions: FloatArray
    starts: FloatArray

    @property
    def schema(self) -> Schema:
        """Names, units and angles of the columns."""
        return self.slice.schema

    @property
    def lack(self) -> FloatArray:
        """The log-odds of the unknown share, positive outside the data and smooth: its zero can be drawn."""
        return _log(self.unknown) - _log(1.0 - self.unknown)

    @property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Where the unknown share is above a half: outside the data."""
        return np.asarray(self.lack > 0)

    def table(self, *estimates: Estimate) -> dict[str, FloatArray]:
        """Return columns of equal length by name, one row per state of the grid.

        Every state column, the estimates (all by default), then `unknown`. An estimate with the name of a
        column of the data gets an underscore.

        Args:
            estimates: Of "actions", "value" and "visitation".
        """
        asked = estimates or get_args(Estimate)
        table: dict[str, FloatArray] = dict(
            zip(self.schema.states, self.slice.states().numpy().T, strict=True)
        )
        if "actions" in asked:
            columns = self.actions.reshape(-1, len(self.schema.actions)).T
            table |= zip(self.schema.actions, columns, strict=True)
        taken = {*self.schema.states, *self.schema.actions}
        for name in (*(name for name in asked if name != "actions"), "unknown"):
            table[_free(name, taken)] = getattr(self, name).ravel()
        return table


def _free(name: str, taken: Collection[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _log(x: FloatArray) -> FloatArray:
    """Return log x, finite at 0."""
    return np.asarray(np.log(np.maximum(x, np.finfo(np.float64).tiny)))


def map_states(
    solution: Solution,
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    held: Mapping[str, float] | None = None,
    points: int | None = None,
) -> StateMap:
    """Return the estimates of a solution over one or two state columns.

    An axis covers the data and the initial states. An angle has one period, [−T/2, T/2] or its declared
    bounds if they are one period apart; if the data cover less than half of it, that arc.

    Args:
        solution: The solution, with its policy.
        schema: Of the data behind it.
        columns: One or two state columns; by default the two along which the visits spread most, in the
            units of the problem.
        held: Values of other columns; by default those of the logged state nearest to the median visit.
        points: Number of values of each axis; 61, or 401 for a single column.

    Example:
        >>> import nopg
        >>> from nopg.envs import Pendulum, collect_grid
        >>> data, one = collect_grid(Pendulum(), (8, 8, 2)), nopg.TrainingConfig(updates=1)
        >>> result = nopg.optimize(data, 0.9, model="paper", config=one)
        >>> found = map_states(result.solution, result.policy.schema, points=5)
        >>> found.slice.columns, found.value.shape, found.actions.shape
        (('angle', 'velocity'), (5, 5), (5, 5, 1))
    """
    problem = solution.problem
    starts = schema.decode(schema.encode(problem.initial_states))  # angles within half a turn of 0
    where = _slice(solution, schema, starts, columns=columns, held=dict(held or {}), points=points)
    states = where.states()
    features = schema.encode(states)
    found = solution.at(features)
    with torch.no_grad():
        actions = solution.policy.mode(features)

    def on_grid(values: torch.Tensor) -> FloatArray:
        return values.double().numpy().reshape(*where.shape, *values.shape[1:])

    return StateMap(
        slice=where,
        value=on_grid(found.value),
        visitation=on_grid(found.visitation),
        unknown=problem.unknown_under(solution.policy, states).reshape(where.shape),
        actions=on_grid(actions),
        starts=starts.numpy(),
    )


def _slice(
    solution: Solution,
    schema: Schema,
    starts: torch.Tensor,
    *,
    columns: Sequence[str] | None,
    held: dict[str, float],
    points: int | None,
) -> StateSlice:
    """Return a grid through the states that a solution knows; see `map_states`."""
    chosen = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    free = [name for name in schema.states if name not in held]
    _check(chosen, held, schema, points)
    data, widths = solution.problem.data, solution.problem.multistep.state_widths
    if len(data) > _MOST_ROWS:
        data = data.take(spread_rows(data, _MOST_ROWS, purpose="places"))
    features = schema.encode(data.next_states)
    inside = solution.unknown_at(features) <= _MOSTLY
    features = features[inside] if bool(inside.any()) else features
    logged = schema.decode(features)
    visited, visits = solution.visited()
    places = schema.encode(visited) / widths

    chosen = _widest(places, visits, schema, free) if chosen is None else chosen
    typical = [
        k for k, column in enumerate(schema.feature_columns) if schema.states[column] in {*free} - {*chosen}
    ]
    if typical:
        median = torch.stack([_median(place, visits) for place in places[:, typical].T])
        distance = ((features / widths)[:, typical] - median).square().sum(dim=1)
        nearest = dict(zip(schema.states, logged[distance.argmin()].tolist(), strict=True))
        held = nearest | held
    axes = []
    for name in chosen:
        column, period = schema.states.index(name), schema.angles.get(name)
        known, first = logged[:, column].numpy(), starts[:, column].numpy()
        low, high = (
            _ends(known, first) if period is None else _arc(known, first, period, schema.bounds.get(name))
        )
        if high <= low:  # a column that never changes
            margin = 0.5 * abs(low) or 0.5
            low, high = low - margin, high + margin
        axes.append(np.linspace(low, high, points or _POINTS[len(chosen)]))
    others = [name for name in schema.states if name not in chosen]
    return StateSlice(schema, chosen, tuple(axes), {name: float(held[name]) for name in others})


def _check(
    columns: tuple[str, ...] | None, held: Mapping[str, float], schema: Schema, points: int | None
) -> None:
    names = list(schema.states)
    if points is not None and points < 2:
        raise ArgumentError(f"points is {points}; an axis needs at least 2")
    for name in (*held, *(columns or ())):
        if name not in names:
            raise ArgumentError(f"there is no state column {name!r}; the columns are {names}")
    for name, value in held.items():
        if not math.isfinite(value):
            raise ArgumentError(f"{name!r} is held at {value}; give a finite number")
    if columns is None and len(held) == len(names):
        raise ArgumentError(f"every column of {names} is held; let at least one vary")
    if columns is not None and (len(columns) not in {1, 2} or len(set(columns)) < len(columns)):
        raise ArgumentError(f"columns is {list(columns)}; give one or two different ones of {names}")
    if both := [name for name in columns or () if name in held]:
        raise ArgumentError(f"{both} cannot both vary and be held; take it out of columns or of held")


def _widest(
    places: torch.Tensor, visits: torch.Tensor, schema: Schema, names: Sequence[str]
) -> tuple[str, ...]:
    """Return the two columns along which the visits spread most, in the order of the data."""
    share = (visits / visits.sum())[:, None]
    by_feature = (share * (places - (share * places).sum(dim=0)).square()).sum(dim=0).tolist()
    spread = dict.fromkeys(schema.states, 0.0)
    for column, variance in zip(schema.feature_columns, by_feature, strict=True):
        spread[schema.states[column]] += variance
    widest = sorted(names, key=lambda name: -spread[name])[:2]
    return tuple(name for name in schema.states if name in widest)


def _median(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted median."""
    ordered, order = values.sort()
    reached = weights[order].cumsum(dim=0)
    return ordered[int((reached < 0.5 * reached[-1]).sum())]


def _ends(known: FloatArray, starts: FloatArray) -> tuple[float, float]:
    """Return the ends of both, a few rows left out."""
    ends = []
    for values in (known, starts):
        ordered, spikes = np.sort(values), len(values) // _ROWS_PER_SPIKE
        ends.append((float(ordered[spikes]), float(ordered[-1 - spikes])))
    return min(low for low, _ in ends), max(high for _, high in ends)


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
    low, high = (first + end for end in _ends((known - first) % period, (starts - first) % period))
    if high - low >= period / 2:
        return whole
    turns = period * math.floor(((low + high) / 2 - whole[0]) / period)
    return low - turns, high - turns
