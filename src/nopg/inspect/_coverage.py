"""How densely the data stand: neighbours of rows left out, steps over bandwidths, support of the starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.errors import DataError
from nopg.inspect._findings import Finding, count_of, listed, look, ok, share_of, stop
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.kernels._spacing import step_length
from nopg.kernels._table import RegressionTable

__all__ = [
    "PERCENTILES",
    "STICKS",
    "UNKNOWN_BEYOND",
    "Coverage",
    "coverage_finding",
    "percentiles",
    "starts_finding",
    "steps_finding",
]

PERCENTILES = (5, 25, 50, 75, 95)
STICKS = 0.5
"""Median step over bandwidth below which the model mostly stays where it is."""
UNKNOWN_BEYOND = math.sqrt(2 * math.log(1e6))
"""Distance, in bandwidths, at which a lone sample weighs as much as the default prior mass of 10⁻⁶."""

_ROWS = 50_000
_QUERIES = 400
_PAIRS_AT_ONCE = 1 << 20
# A bandwidth held down to two steps measures half a bandwidth per step, but for rounding.
_HELD_DOWN = 1.01 * STICKS
_WIDE_HOLES = 1.5
_GRAVE_STEP = 0.1
# Distance in bandwidths at which a neighbour is still worth something, and whom it should reach.
_REACH, _REACHED = 2.0, 0.9
_FEW_UNKNOWN, _MANY_UNKNOWN = 0.05, 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What the kernels see, at the bandwidths given or those that `select_bandwidths` chooses.

    Attributes:
        num_rows: Rows it was measured on.
        bandwidths: Of the columns that vary.
        steps: Median step over bandwidth of every state column that varies, by name.
        neighbors: Effective number of neighbours, (Σw)²/Σw², of rows left out with their episode or their
            copies, shape (m,).
        nearest: Their distance to the nearest row that remains, in bandwidths, shape (m,).
        starts: Where the initial states come from: `declared`, `first rows of episodes` or `all states`.
        starts_support: Effective sample size Σψ at each of them, shape (n₀,).
        starts_nearest: Their distance to the nearest state of the data, in bandwidths, shape (n₀,).
    """

    num_rows: int
    bandwidths: Bandwidths
    steps: Mapping[str, float]
    neighbors: torch.Tensor
    nearest: torch.Tensor
    starts: str
    starts_support: torch.Tensor
    starts_nearest: torch.Tensor

    @classmethod
    def of(cls, data: Transitions, bandwidths: Bandwidths | None = None) -> Coverage:
        """Measure the coverage; a `DataError` says why it cannot be."""
        constant = _some_rows(data).constant_columns
        full = _without(data, constant)
        varying = _some_rows(full)
        table = RegressionTable.from_data(varying)
        h = (
            select_bandwidths(varying)
            if bandwidths is None
            else _without_bandwidths(bandwidths, data, constant)
        )
        neighbors, nearest = _left_out(table, torch.cat([h.states, h.actions]))
        starts = _Starts.of(full, varying)
        support, start_distance = _support(starts, varying, h)

        by_column = torch.empty(len(varying.schema.states), dtype=torch.float64)
        by_column[torch.tensor(varying.schema.feature_columns)] = h.states
        ratios = (step_length(varying) / by_column).tolist()
        return cls(
            num_rows=len(varying),
            bandwidths=h,
            steps=dict(zip(varying.schema.states, ratios, strict=True)),
            neighbors=neighbors,
            nearest=nearest,
            starts=starts.source,
            starts_support=support,
            starts_nearest=start_distance,
        )

    @property
    def holes(self) -> float:
        """How many times wider states would have to be for nine rows in ten to have a neighbour in reach."""
        return max(1.0, float(self.nearest.quantile(_REACHED)) / _REACH)

    @property
    def short(self) -> Mapping[str, float]:
        """The state columns whose steps are too short for their bandwidths, with step over bandwidth.

        Bandwidths are held down to two steps. Columns at that bound are short, too, if it leaves holes.
        """
        limit = _HELD_DOWN if self.holes >= _WIDE_HOLES else STICKS**2 / _HELD_DOWN
        return {name: ratio for name, ratio in self.steps.items() if 0 < ratio < limit}

    @property
    def frame_skip(self) -> int:
        """How many steps to take as one so that the model does not stick; 1 where it does not."""
        if not self.short:
            return 1
        return max(2, math.ceil(STICKS / min(self.short.values()) * self.holes))


def percentiles(values: torch.Tensor) -> list[float]:
    """Return the `PERCENTILES` of values (m,)."""
    shares = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    return [float(value) for value in values.quantile(shares)]


def _some_rows(data: Transitions) -> Transitions:
    """Return the data, or so many rows of it, drawn the same way every time."""
    if len(data) <= _ROWS:
        return data
    drawn = torch.randperm(len(data), generator=generator(0, "described rows"))[:_ROWS]
    return data.take(drawn.sort().values)


def _without(data: Transitions, constant: Sequence[str]) -> Transitions:
    """Return the data without these columns."""
    if not constant:
        return data
    schema = data.schema
    s = [k for k, name in enumerate(schema.states) if name not in constant]
    a = [k for k, name in enumerate(schema.actions) if name not in constant]
    if not s or not a:
        raise DataError(f"{listed(constant)} never vary, and without them there is nothing to compare")
    varying = replace(
        schema,
        states=tuple(schema.states[k] for k in s),
        actions=tuple(schema.actions[k] for k in a),
        angles={name: period for name, period in schema.angles.items() if name not in constant},
        units={name: unit for name, unit in schema.units.items() if name not in constant},
        bounds={name: bounds for name, bounds in schema.bounds.items() if name not in constant},
    )
    return replace(
        data,
        states=data.states[:, s],
        actions=data.actions[:, a],
        next_states=data.next_states[:, s],
        schema=varying,
        initial_states=None if data.initial_states is None else data.initial_states[:, s],
    )


def _without_bandwidths(bandwidths: Bandwidths, data: Transitions, constant: Sequence[str]) -> Bandwidths:
    """Return the bandwidths of the columns that are not among these."""
    schema = data.schema
    s = [k for k, column in enumerate(schema.feature_columns) if schema.states[column] not in constant]
    a = [k for k, name in enumerate(schema.actions) if name not in constant]
    h = bandwidths
    return Bandwidths(h.states[s], h.actions[a], h.next_states[s], h.source)


def _left_out(table: RegressionTable, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return effective neighbours and nearest distance of rows spread evenly from the centre outwards."""
    x = table.inputs * (table.scale / h)
    rows = _spread(len(x))
    weighed = [
        _weigh(
            x[some],
            x,
            log_counts=table.log_counts,
            left_out=table.held_out_with[some][:, None] == table.held_out_with,
        )
        for some in rows.split(max(1, _PAIRS_AT_ONCE // len(x)))
    ]
    neighbors, _, nearest = (torch.cat(parts) for parts in zip(*weighed, strict=True))
    return neighbors, nearest


@dataclass(frozen=True, slots=True, eq=False)
class _Starts:
    """Raw initial states, the group each belongs to (None: to none), and the groups of the samples."""

    source: str
    states: torch.Tensor
    own: torch.Tensor | None = None
    groups: torch.Tensor | None = None

    @classmethod
    def of(cls, data: Transitions, some: Transitions) -> _Starts:
        """Return the starts of a dataset, to be held against some of its rows."""
        if data.initial_states is not None:
            return cls("declared", data.initial_states)
        if data.episodes is None:
            rows = torch.arange(len(some))
            return cls("all states", some.states, rows, rows)

        numbers = data.episodes.unique()
        if len(numbers) > 1:
            return cls("first rows of episodes", data.starts, numbers, some.episodes)
        rows = torch.arange(len(some))
        return cls("first rows of episodes", some.states[:1], rows[:1], rows)


def _support(starts: _Starts, some: Transitions, h: Bandwidths) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Σψ at the starts and their distance to the nearest state, their own episode left out."""
    states = some.features / h.states
    queries = some.schema.encode(starts.states) / h.states
    weighed = []
    for rows in _spread(len(queries)).split(max(1, _PAIRS_AT_ONCE // len(states))):
        own, groups = starts.own, starts.groups
        left_out = None if own is None or groups is None else own[rows][:, None] == groups
        weighed.append(_weigh(queries[rows], states, left_out=left_out))
    _, support, nearest = (torch.cat(parts) for parts in zip(*weighed, strict=True))
    return support, nearest


def _weigh(
    queries: torch.Tensor,
    points: torch.Tensor,
    *,
    left_out: torch.Tensor | None,
    log_counts: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (Σw)²/Σw², Σw and the least distance for queries (m, d) among points (n, d) in bandwidths.

    A query that is left without a point has no neighbours, at an infinite distance.
    """
    # Differences, not inner products: those lose the digits of what lies close together.
    squared = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").square_()
    if left_out is not None:
        squared.masked_fill_(left_out, math.inf)
    nearest = squared.amin(dim=1)
    floor = torch.where(nearest.isinf(), 0.0, nearest)

    # Relative to the nearest, so that far queries do not underflow.
    w = squared.sub_(floor[:, None]).mul_(-0.5)
    w = (w if log_counts is None else w.add_(log_counts)).exp_()
    total = w.sum(dim=1)
    effective = (total.square() / w.square_().sum(dim=1)).nan_to_num(nan=0.0)
    return effective, total * (-0.5 * floor).exp(), nearest.sqrt()


def _spread(count: int) -> torch.Tensor:
    """Return at most `_QUERIES` of so many row numbers, evenly spread."""
    return torch.linspace(0, count - 1, min(count, _QUERIES), dtype=torch.float64).round().long()


def steps_finding(coverage: Coverage) -> Finding:
    """Judge the length of a step against the bandwidth, column by column."""
    topic, skip = "steps", coverage.frame_skip
    if skip == 1:
        moving = {name: ratio for name, ratio in coverage.steps.items() if ratio > 0}
        if not moving:
            return look(
                topic,
                "in the median row no state column moves",
                "Check that next states are those after the action, and cut what was recorded at rest",
            )
        name = min(moving, key=lambda name: moving[name])
        return ok(topic, f"a median step is at least {moving[name]:.2g} bandwidths ({name})")

    short = coverage.short
    shown = listed([f"{ratio:.2g} of a bandwidth in {name}" for name, ratio in short.items()])
    what = f"a median step is {shown}: the model hardly moves"
    if coverage.holes > 1:
        what += f"; even so one row in ten lies over {_REACH * coverage.holes:.2g} bandwidths from all others"
    advice = (
        f"Try a frame skip of {skip}: keep one state in {skip}, hold the action in between, sum the rewards"
    )
    grave = min(short.values()) / coverage.holes < _GRAVE_STEP
    return stop(topic, what, advice) if grave else look(topic, what, advice)


def coverage_finding(coverage: Coverage) -> Finding:
    """Judge how many rows have no other near them."""
    topic = "coverage"
    beyond = float((coverage.nearest > UNKNOWN_BEYOND).double().mean())
    middle, nearest = float(coverage.neighbors.median()), float(coverage.nearest.median())
    if beyond <= _FEW_UNKNOWN:
        return ok(
            topic,
            f"the median row has {middle:.2g} effective neighbours, the nearest at {nearest:.2g} bandwidths",
        )
    what = (
        f"{share_of(beyond)} of the rows, left out, lie over {UNKNOWN_BEYOND:.1f} bandwidths from all others"
    )
    if coverage.frame_skip > 1:
        advice = "Correct the steps first: longer ones allow wider bandwidths"
    else:
        advice = (
            "Record more there, or leave out columns that do not matter: the model calls such places unknown"
        )
    return stop(topic, what, advice) if beyond > _MANY_UNKNOWN else look(topic, what, advice)


def starts_finding(coverage: Coverage) -> Finding:
    """Judge whether data stand where the task starts."""
    topic, count = "initial states", len(coverage.starts_nearest)
    worst = float(coverage.starts_nearest.max())
    far = int((coverage.starts_nearest > _REACH).sum())
    if coverage.starts == "all states":
        return look(
            topic,
            "none are declared, and without episodes every state counts as one",
            "Say where the controller will start: data.starting_at(…)",
        )
    if not far:
        near = f"within {worst:.2g} bandwidths of each" if worst > 1e-9 else "at each"
        return ok(topic, f"{coverage.starts}; data stand {near}")

    whose = "data" if coverage.starts == "declared" else "other episodes"
    what = f"{far} of {count_of(count, 'start')} ({coverage.starts}) lie over {_REACH:g} bandwidths from "
    what += f"the {whose}, the farthest {worst:.2g}"
    if coverage.frame_skip > 1:
        advice = "Correct the steps first: longer ones allow wider bandwidths; then record more from there"
    else:
        advice = "Record more from there, or start where data stand: all that follows rests on these states"
    # Judged at the bandwidths that longer steps would allow.
    limit = UNKNOWN_BEYOND * (coverage.holes if coverage.frame_skip > 1 else 1.0)
    unknown = float((coverage.starts_nearest > limit).double().mean())
    return stop(topic, what, advice) if unknown > _MANY_UNKNOWN else look(topic, what, advice)
