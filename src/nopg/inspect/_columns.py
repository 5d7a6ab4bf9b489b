"""Ranges, levels and histograms of the columns, and what looks wrong in one column by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nopg.data import Schema, Transitions
from nopg.inspect._findings import Finding, count_of, listed, look, ok, share_of, stop

__all__ = [
    "Column",
    "angle_finding",
    "bounds_finding",
    "constant_finding",
    "far_finding",
    "measure_columns",
    "outside_finding",
    "reward_finding",
]

_BINS = 40
_ROUNDING = 1e-9
# One value in so many rows, or a range so small against the values, hardly counts as varying.
_NEAR_CONSTANT = 0.98
_TINY_RANGE = 1e-6
# Values farther from the median than so many ranges of the middle 98 % are codes or spikes.
_FAR = 10.0
# More rows at one end than this, and than three levels' fair share, are saturation.
_SATURATED = 0.05
_FAIR_SHARES = 3.0
# A wrapped angle crosses nearly its whole range in a step, while most steps are short.
_WRAP, _SHORT, _END = 0.9, 0.1, 0.1
_FEW_LEVELS = 10

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
        commonest: Share of rows with its most frequent value.
        mode: That value.
        unit: Its unit, where declared, else empty.
        bounds: Its declared bounds; its least and greatest value where nobody declared any.
        declared: Whether the bounds were declared.
        at_low: Share of rows at its lower bound.
        at_high: Share of rows at its upper bound.
        outside: Row numbers outside its bounds.
        far: Row numbers of values so far out that they are hardly measurements.
        jumps: Row numbers in which it crosses nearly its whole range, as an undeclared angle does.
        period: Of a declared angle, else None.
        counts: Histogram, shape (bins,).
        edges: Of the histogram, shape (bins + 1,); a declared angle is brought into one turn.
    """

    name: str
    role: Role
    low: float
    median: float
    high: float
    spread: float
    levels: int
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
    edges: npt.NDArray[np.float64]

    @property
    def constant(self) -> bool:
        """Whether it holds one value only."""
        return self.levels == 1

    @property
    def near_constant(self) -> bool:
        """Whether it hardly varies, though it does."""
        size = max(abs(self.low), abs(self.high))
        rare = self.commonest >= _NEAR_CONSTANT or self.high - self.low < _TINY_RANGE * size
        return rare and not self.constant

    @property
    def at_ends(self) -> float:
        """Share of rows at one of its bounds."""
        return min(1.0, self.at_low + self.at_high)

    @property
    def saturated(self) -> bool:
        """Whether more rows than chance would put there stand at one of its ends."""
        return max(self.at_low, self.at_high) > max(_SATURATED, _FAIR_SHARES / self.levels)


def measure_columns(data: Transitions) -> tuple[Column, ...]:
    """Return the columns of a dataset: states, actions, the reward."""
    schema, steps = data.schema, (data.next_states - data.states).numpy()
    columns = [
        _measure(name, "state", data.states[:, k].numpy(), schema=schema, step=steps[:, k])
        for k, name in enumerate(schema.states)
    ]
    columns += [
        _measure(name, "action", data.actions[:, k].numpy(), schema=schema)
        for k, name in enumerate(schema.actions)
    ]
    return (*columns, _measure("reward", "reward", data.rewards.numpy(), schema=schema))


def _measure(
    name: str,
    role: Role,
    x: npt.NDArray[np.float64],
    *,
    schema: Schema,
    step: npt.NDArray[np.float64] | None = None,
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
        commonest=float(counts.max() / len(x)),
        mode=float(values[counts.argmax()]),
        unit=schema.units.get(name, ""),
        bounds=bounds,
        declared=name in schema.bounds,
        at_low=float((x <= low + rounding).mean()),
        at_high=float((x >= high - rounding).mean()),
        outside=() if period is not None else tuple(outside.tolist()),
        far=() if role == "reward" or period is not None else _far(x),
        jumps=() if step is None or period is not None else _jumps(x, step),
        period=period,
        counts=histogram,
        edges=edges,
    )


def _histogram(x: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    low, high = float(x.min()), float(x.max())
    resolution = 1e-9 * max(abs(low), abs(high), 1e-300)
    if high - low <= resolution:  # too narrow to be divided
        margin = max(0.5 * abs(low), 0.5)
        low, high = low - margin, high + margin
    counts, edges = np.histogram(x, bins=_BINS, range=(low, high))
    return counts.astype(np.int64), edges


def _far(x: npt.NDArray[np.float64]) -> tuple[int, ...]:
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    if high == low:
        return ()
    return tuple(np.flatnonzero(np.abs(x - middle) > _FAR * (high - low)).tolist())


def _jumps(x: npt.NDArray[np.float64], step: npt.NDArray[np.float64]) -> tuple[int, ...]:
    width, length = float(np.ptp(x)), np.abs(step)
    ends = [(x <= x.min() + _END * width).sum(), (x >= x.max() - _END * width).sum()]
    jumps = np.flatnonzero(length >= _WRAP * width)
    # A spike crosses the range twice for one value at its end; a switch has few levels.
    if min(ends) < max(3.0, 0.6 * len(jumps)) or len(np.unique(x)) <= _FEW_LEVELS:
        return ()
    if np.median(length) > _SHORT * width:
        return ()
    return tuple(jumps.tolist())


def constant_finding(columns: Sequence[Column]) -> Finding:
    """Judge columns of states and actions that do not vary, or hardly."""
    topic, inputs = "constant columns", [column for column in columns if column.role != "reward"]
    constant = [column for column in inputs if column.constant]
    actions = [column.name for column in constant if column.role == "action"]
    if actions:
        return stop(
            topic,
            f"the action {listed(actions)} never changes",
            "Vary it in the plant, or leave it out: what was never tried cannot be learned",
        )
    if constant:
        shown = listed([f"{column.name} = {column.low:.6g}" for column in constant])
        return stop(
            topic, f"{shown} in every row", "Leave it out of the states: no bandwidth can be read from it"
        )

    near = [column for column in inputs if column.near_constant]
    if near:
        shown = listed([_hardly(column) for column in near])
        return look(
            topic,
            shown,
            "Leave it out if it does not matter; if it does, record more rows in which it varies",
        )
    return ok(topic, "every state and action column varies")


def _hardly(column: Column) -> str:
    if column.commonest >= _NEAR_CONSTANT:
        return f"{column.name} = {column.mode:.6g} in {share_of(column.commonest)} of the rows"
    return f"{column.name} varies by {column.high - column.low:.1g} round {column.median:.6g}"


def far_finding(columns: Sequence[Column]) -> Finding:
    """Judge values that lie absurdly far from all others."""
    topic, far = "far values", [column for column in columns if column.far]
    if not far:
        return ok(topic, "no value lies far from all others")
    shown = "; ".join(
        f"{column.name} has {count_of(len(column.far), 'value')} far from all others "
        f"(row {listed(column.far)}; range {column.low:.4g} to {column.high:.4g})"
        for column in far
    )
    return stop(topic, shown, "Drop these rows if they are error codes or spikes: one spreads every range")


def angle_finding(columns: Sequence[Column]) -> Finding:
    """Judge state columns that wrap round like an angle nobody declared."""
    topic, wrapped = "angles", [column for column in columns if column.jumps]
    if not wrapped:
        declared = [column.name for column in columns if column.period is not None]
        return ok(
            topic, f"declared: {listed(declared)}" if declared else "no column wraps round like an angle"
        )
    shown = "; ".join(
        f"{column.name} crosses its whole range in one step {count_of(len(column.jumps), 'time')} "
        f"(row {listed(column.jumps)})"
        for column in wrapped
    )
    first = wrapped[0]
    return look(
        topic,
        shown,
        f"If it is an angle, declare it: angles={{'{first.name}': {first.high - first.low:.3g}}}, its period",
    )


def reward_finding(columns: Sequence[Column], num_terminated: int) -> Finding:
    """Judge the reward."""
    topic, reward = "reward", columns[-1]
    if not reward.constant:
        return ok(topic, f"between {reward.low:.4g} and {reward.high:.4g}")
    if num_terminated:
        return ok(topic, f"{reward.low:.4g} in every row; what differs is when the task ends")
    return stop(
        topic,
        f"the reward is {reward.low:.4g} in every row and nothing terminates",
        "Check the reward column or the terminated flags: every policy is worth the same",
    )


def bounds_finding(columns: Sequence[Column]) -> Finding:
    """Judge actions that stand at the ends of their range."""
    topic = "actions at bounds"
    actions = [column for column in columns if column.role == "action"]
    saturated = [column for column in actions if column.saturated]
    if saturated:
        shown = "; ".join(
            f"{column.name} is at {column.bounds[0]:.4g} in {share_of(column.at_low)} "
            f"and at {column.bounds[1]:.4g} in {share_of(column.at_high)} of the rows"
            for column in saturated
        )
        return look(
            topic,
            shown,
            "See that the action is stored as it was applied, after clipping; "
            "no learned policy goes beyond these bounds",
        )
    few = [
        f"{column.name} has {column.levels} levels" for column in actions if 1 < column.levels <= _FEW_LEVELS
    ]
    return ok(topic, listed(few) if few else "no action crowds at the ends of its range")


def outside_finding(columns: Sequence[Column]) -> Finding | None:
    """Judge values outside bounds that somebody declared; None where nobody did."""
    topic = "declared bounds"
    declared = [column for column in columns if column.declared]
    if not declared:
        return None
    outside = [column for column in declared if column.outside]
    if not outside:
        return ok(topic, f"kept by {listed([column.name for column in declared])}")
    shown = "; ".join(
        f"{column.name} leaves [{column.bounds[0]:.4g}, {column.bounds[1]:.4g}] in "
        f"{count_of(len(column.outside), 'row')} (row {listed(column.outside)})"
        for column in outside
    )
    if any(column.role == "action" for column in outside):
        return stop(topic, shown, "Store the action as it was applied, after clipping, or correct the bounds")
    return look(topic, shown, "Correct the bounds, or drop the rows if the sensor erred")
