"""Ranges, levels and histograms of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import FloatArray
from nopg.data import Schema, Transitions
from nopg.data._column_counts import ColumnCounts
from nopg.inspect._findings import Finding, graded, warning
from nopg.inspect._wording import share_of

FEW_LEVELS = 10
"""A column with at most this many distinct values is a switch."""
NEAR_CONSTANT = 0.98
"""Share of rows with one value from which on a column hardly varies."""

# Rows that each of few values needs, so that it is a level and no chance.
_RECURS = 3
_BINS = 40
_ROUNDING = 1e-9
# A range below this share of the values hardly varies either.
_TINY_RANGE = 1e-6
# Values farther from the median than ten ranges of the middle 98 % are codes or spikes.
_FAR = 10.0
# More rows at one end than this, and than three levels' fair share, are saturation.
_SATURATED, _FAIR_SHARES = 0.05, 3.0
# A wrapped angle crosses nearly its whole range in a step, while most steps are short.
_WRAP, _SHORT, _END = 0.9, 0.1, 0.1
# Share of all rows beyond those of a sample that is no concern.
_UNSEEN = 0.01

Role = Literal["state", "action", "reward"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column of the data.

    Attributes:
        name: Its name.
        role: `state`, `action` or `reward`.
        low: Its least value.
        median: Its median.
        high: Its greatest value.
        spread: Its standard deviation.
        levels: How many distinct values it takes.
        values: These values, if they are few and each recurs; else empty.
        commonest: Share of rows with its most frequent value.
        mode: That value.
        unit: Its unit, where declared, else empty.
        bounds: Its declared bounds; otherwise its least and greatest value.
        declared: Whether the bounds were declared.
        at_low: Share of rows at its lower bound.
        at_high: Share of rows at its upper bound.
        outside: Row numbers outside its bounds.
        far: Row numbers of values too far out to be measurements.
        jumps: Row numbers in which it crosses nearly its whole range, as an undeclared angle does.
        period: Of a declared angle, else None.
        counts: Histogram, shape (bins,).
        edges: Of the histogram, shape (bins + 1,); a declared angle is wrapped to one turn.
    """

    name: str
    role: Role
    low: float
    median: float
    high: float
    spread: float
    levels: int
    values: tuple[float, ...]
    commonest: float
    mode: float
    unit: str
    bounds: tuple[float, float]
    declared: bool
    at_low: float
    at_high: float
    outside: tuple[int, ...]
    far: tuple[int, ...]
    jumps: tuple[int, ...]
    period: float | None
    counts: npt.NDArray[np.int64]
    edges: FloatArray

    @property
    def constant(self) -> bool:
        """Whether it holds one value only."""
        return self.levels == 1

    @property
    def near_constant(self) -> bool:
        """Whether it hardly varies, though it does."""
        size = max(abs(self.low), abs(self.high))
        rare = self.commonest >= NEAR_CONSTANT or self.high - self.low < _TINY_RANGE * size
        return rare and not self.constant

    @property
    def at_ends(self) -> float:
        """Share of rows at one of its bounds."""
        return min(1.0, self.at_low + self.at_high)

    @property
    def saturated(self) -> bool:
        """Whether more rows lie at one of its ends than by chance."""
        return max(self.at_low, self.at_high) > max(_SATURATED, _FAIR_SHARES / self.levels)


def with_counts(columns: Sequence[Column], counted: ColumnCounts, schema: Schema) -> tuple[Column, ...]:
    """Return columns of a sample with the ranges and medians of all rows."""
    places = {name: k for k, name in enumerate((*schema.states, *schema.actions))}
    low, median, high = (part.tolist() for part in (counted.low, counted.quantile(0.5), counted.high))
    found = []
    for column in columns:
        k = -1 if column.role == "reward" else places[column.name]
        bounds = column.bounds if column.declared else (low[k], high[k])
        found.append(replace(column, low=low[k], median=median[k], high=high[k], bounds=bounds))
    return tuple(found)


def sample_finding(counted: ColumnCounts, schema: Schema, num_rows: int) -> Finding:
    """Return the finding about rows outside what the sample has, which no chart was placed for."""
    names, beyond = (*schema.states, *schema.actions, "reward"), counted.beyond.tolist()
    worst = max(range(len(names)), key=beyond.__getitem__)
    low, median, high = map(counted.quantile, (0.01, 0.5, 0.99))
    middle, away = high - low, torch.maximum(counted.high - median, median - counted.low)
    far = [name for name, one in zip(names, (away > _FAR * middle).tolist(), strict=True) if one]
    if far:
        k = names.index(far[0])
        ends = f"{counted.low[k]:.4g} to {counted.high[k]:.4g}"
        what = f"{far[0]} reaches from {ends}, far from where most rows are"
        return warning("sample", what, "Check whether these are codes or spikes, and declare them as missing")
    share = beyond[worst] / num_rows
    what = f"{share_of(share)} of all rows lie beyond those of the sample in {names[worst]}"
    return graded("sample", what, "Charts end where the sample does", grave=False, minor=share <= _UNSEEN)


def measure_columns(data: Transitions) -> tuple[Column, ...]:
    """Return the columns of a dataset: measured states, actions, the reward."""
    schema, steps = data.schema, (data.next_states - data.states).numpy()
    columns = [
        _measure(name, "state", data.states[:, k].numpy(), schema=schema, step=steps[:, k])
        for k, name in enumerate(schema.measured)
    ]
    columns += [
        _measure(name, "action", data.actions[:, k].numpy(), schema=schema)
        for k, name in enumerate(schema.actions)
    ]
    return (*columns, _measure("reward", "reward", data.rewards.numpy(), schema=schema))


def _measure(
    name: str,
    role: Role,
    x: FloatArray,
    *,
    schema: Schema,
    step: FloatArray | None = None,
) -> Column:
    period = schema.angles.get(name) if role == "state" else None
    values, counts = np.unique(x, return_counts=True)
    low, high = bounds = schema.bounds.get(name, (float(values[0]), float(values[-1])))
    rounding = _ROUNDING * (high - low)
    outside = np.flatnonzero((x < low - rounding) | (x > high + rounding))
    drawn = x if period is None else (x + period / 2) % period - period / 2
    histogram, edges = _histogram(drawn)
    return Column(
        name=name,
        role=role,
        low=float(values[0]),
        median=float(np.median(x)),
        high=float(values[-1]),
        spread=float(x.std()) if len(values) > 1 else 0.0,
        levels=len(values),
        values=tuple(values.tolist()) if len(values) <= FEW_LEVELS and counts.min() >= _RECURS else (),
        commonest=float(counts.max() / len(x)),
        mode=float(values[counts.argmax()]),
        unit=schema.units.get(name, ""),
        bounds=bounds,
        declared=name in schema.bounds,
        at_low=float((x <= low + rounding).mean()),
        at_high=float((x >= high - rounding).mean()),
        outside=() if period is not None else tuple(outside.tolist()),
        far=() if role == "reward" or period is not None else _far(x),
        jumps=() if step is None or period is not None or name in schema.exogenous else _jumps(x, step),
        period=period,
        counts=histogram,
        edges=edges,
    )


def _histogram(x: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray]:
    low, high = float(x.min()), float(x.max())
    resolution = 1e-9 * max(abs(low), abs(high), 1e-300)
    if high - low <= resolution:  # too narrow to be divided
        margin = max(0.5 * abs(low), 0.5)
        low, high = low - margin, high + margin
    counts, edges = np.histogram(x, bins=_BINS, range=(low, high))
    return counts.astype(np.int64), edges


def _far(x: FloatArray) -> tuple[int, ...]:
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    if high == low:
        return ()
    return tuple(np.flatnonzero(np.abs(x - middle) > _FAR * (high - low)).tolist())


def _jumps(x: FloatArray, step: FloatArray) -> tuple[int, ...]:
    width, length = float(np.ptp(x)), np.abs(step)
    ends = [(x <= x.min() + _END * width).sum(), (x >= x.max() - _END * width).sum()]
    jumps = np.flatnonzero(length >= _WRAP * width)
    # A spike crosses the range twice for one value at its end; a switch has few levels.
    if min(ends) < max(3.0, 0.6 * len(jumps)) or len(np.unique(x)) <= FEW_LEVELS:
        return ()
    if np.median(length) > _SHORT * width:
        return ()
    return tuple(jumps.tolist())
