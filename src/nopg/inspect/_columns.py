"""Columns of a log: ranges, distinct values, histograms, and the findings about single columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nopg._columns import NO_REWARD
from nopg._typing import FloatArray, IntArray
from nopg.data import Schema, Transitions
from nopg.data._bounds import check_bounds
from nopg.errors import DataError
from nopg.inspect._findings import Finding, error, graded, ok, warning
from nopg.inspect._wording import count_of, listed, share_of
from nopg.models._log_summary import ColumnCounts

# A column with at most this many distinct values is a switch.
_FEW_LEVELS = 10
# Share of rows with one value from which on a column hardly varies, and a range that hardly varies either.
_NEAR_CONSTANT, _TINY_RANGE = 0.98, 1e-6
# Rows that each of few values needs, so that it is a level and no chance.
_RECURS = 3
_ROUNDING = 1e-9
# Values farther from the median than ten ranges of the middle 98 % are codes or spikes.
_FAR = 10.0
# More rows at one end than this, and than three levels' fair share, are saturation.
_SATURATED, _FAIR_SHARES = 0.05, 3.0
# A wrapped angle crosses nearly its whole range in a step, while most steps are short.
_WRAP, _SHORT, _END = 0.9, 0.1, 0.1
# Share of all rows beyond those of a sample that is no concern.
_UNSEEN = 0.01


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the data: its values `x` (n,) and, of a state, where they `arrived` in the next states.

    `role` is `state`, `action` or `reward`, `period` that of a declared angle. Ends and median are those of
    all rows, where `x` is a sample.
    """

    name: str
    role: Literal["state", "action", "reward"]
    x: FloatArray
    low: float
    median: float
    high: float
    arrived: FloatArray | None = None
    unit: str = ""
    period: float | None = None
    declared: tuple[float, float] | None = None

    @cached_property
    def distinct(self) -> tuple[FloatArray, IntArray]:
        """The distinct values, and how many rows have each."""
        return np.unique(self.x, return_counts=True)

    @property
    def levels(self) -> int:
        """How many distinct values it takes."""
        return len(self.distinct[0])

    @property
    def spread(self) -> float:
        """Its standard deviation."""
        return float(self.x.std()) if self.levels > 1 else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Its declared bounds; otherwise its least and greatest value."""
        return (self.low, self.high) if self.declared is None else self.declared


def measure_columns(data: Transitions) -> tuple[Column, ...]:
    """Return the columns of a dataset: measured states, actions, the reward if there is one."""
    schema, parts = data.schema, list[tuple[Literal["state", "action", "reward"], str, Tensor, Any]]()
    for k, name in enumerate(schema.measured):
        parts.append(("state", name, data.states[:, k], data.next_states[:, k].numpy()))
    parts += [("action", name, data.actions[:, k], None) for k, name in enumerate(schema.actions)]
    parts += [] if schema.reward == NO_REWARD else [("reward", "reward", data.rewards, None)]
    return tuple(
        Column(
            name,
            role,
            x.numpy(),
            *(float(x.min()), float(np.median(x.numpy())), float(x.max())),
            arrived,
            schema.units.get(name, ""),
            schema.angles.get(name),
            schema.bounds.get(name),
        )
        for role, name, x, arrived in parts
    )


def with_counts(columns: Sequence[Column], counted: ColumnCounts, schema: Schema) -> tuple[Column, ...]:
    """Return columns of a sample with the ranges and medians of all rows."""
    names = (*schema.states, *schema.actions, "reward")
    low, median, high = (part.tolist() for part in (counted.low, counted.quantile(0.5), counted.high))
    places = zip(columns, (names.index(one.name) for one in columns), strict=True)
    return tuple(replace(one, low=low[k], median=median[k], high=high[k]) for one, k in places)


def sample_finding(counted: ColumnCounts, schema: Schema, num_rows: int) -> Finding:
    """Return the finding about rows outside what the sample of a summary has."""
    names, beyond = (*schema.states, *schema.actions, "reward"), counted.beyond.tolist()
    worst = max(range(len(names)), key=beyond.__getitem__)
    low, median, high = map(counted.quantile, (0.01, 0.5, 0.99))
    away = torch.maximum(counted.high - median, median - counted.low)
    far = [name for name, one in zip(names, (away > _FAR * (high - low)).tolist(), strict=True) if one]
    if far:
        k = names.index(far[0])
        ends = f"{counted.low[k]:.4g} to {counted.high[k]:.4g}"
        what = f"{far[0]} reaches from {ends}, far from where most rows are"
        return warning("sample", what, "Check whether these are codes or spikes; declare them as missing")
    share = beyond[worst] / num_rows
    what = f"{share_of(share)} of all rows lie beyond those of the sample in {names[worst]}"
    return graded("sample", what, "The model ends where the sample does", grave=False, minor=share <= _UNSEEN)


def column_findings(
    columns: Sequence[Column], data: Transitions, num_terminated: int
) -> list[Finding | None]:
    """Return the findings about the columns."""
    inputs = [column for column in columns if column.role != "reward"]
    actions = [column for column in columns if column.role == "action"]
    return [
        _constant(inputs),
        _outliers(columns),
        _angles(columns, data),
        _reward(columns[len(inputs) :], num_terminated),
        _saturation(actions),
        _levels(actions, data.schema.levels),
        _outside(data),
    ]


def _constant(inputs: Sequence[Column]) -> Finding:
    topic = "constant columns"
    constant = [column for column in inputs if column.levels == 1]
    if actions := [column.name for column in constant if column.role == "action"]:
        return error(
            topic,
            f"the action {listed(actions)} never changes",
            "Vary it in the plant, or leave it out: the effect of a constant action cannot be learned",
        )
    if constant:
        shown = listed([f"{column.name} = {column.low:.6g}" for column in constant])
        return error(topic, f"{shown} in every row", "Leave it out of the states: it carries no information")
    near = []
    for column in inputs:
        values, counts = column.distinct
        commonest, width = counts.max() / len(column.x), column.high - column.low
        if commonest >= _NEAR_CONSTANT:
            near.append(f"{column.name} = {values[counts.argmax()]:.6g} in {share_of(commonest)} of the rows")
        elif width < _TINY_RANGE * max(abs(column.low), abs(column.high)):
            near.append(f"{column.name} varies by {width:.1g} around {column.median:.6g}")
    if near:
        advice = "Leave it out if it does not matter; if it does, record more rows in which it varies"
        return warning(topic, listed(near), advice)
    return ok(topic, "every state and action column varies")


def _outliers(columns: Sequence[Column]) -> Finding:
    """Return the finding about values too far out to be measurements; of rewards and angles none are."""
    shown = []
    for one in columns:
        low, middle, high = np.quantile(one.x, [0.01, 0.5, 0.99])
        if one.role == "reward" or one.period is not None or high == low:
            continue
        # The last reading of an episode is in the next states alone.
        away, arrived = _FAR * (high - low), one.x if one.arrived is None else one.arrived
        rows, last = (np.flatnonzero(np.abs(x - middle) > away) for x in (one.x, arrived))
        last = last[~np.isin(last + 1, rows)]
        if far := [*zip(last, arrived[last], strict=True), *zip(rows, one.x[rows], strict=True)]:
            places = listed([f"{value:.6g} in row {row}" for row, value in dict(far).items()])
            shown.append(f"{one.name} has {count_of(len(dict(far)), 'value')} far from all others ({places})")
    if not shown:
        return ok("outliers", "no value lies far from all others")
    advice = "Drop these rows if they are error codes or spikes: they widen the range"
    return error("outliers", "; ".join(shown), advice)


def _angles(columns: Sequence[Column], data: Transitions) -> Finding:
    topic = "angles"
    states = [one for one in columns if one.role == "state" and one.name not in data.schema.exogenous]
    wrapped = {one: rows for one in states if (rows := _jumps(one))}
    if not wrapped:
        declared = listed([*data.schema.angles])
        return ok(topic, f"declared: {declared}" if declared else "no column wraps like an angle")
    shown = "; ".join(
        f"{one.name} crosses its whole range in one step {count_of(len(rows), 'time')} (row {listed(rows)})"
        for one, rows in wrapped.items()
    )
    first = next(iter(wrapped))
    declared_as = f"angles={{'{first.name}': {first.high - first.low:.3g}}}"
    return warning(topic, shown, f"If it is an angle, declare it with its period: {declared_as}")


def _jumps(column: Column) -> list[int]:
    """Return the rows whose step crosses nearly the whole range, as an undeclared angle does."""
    if column.arrived is None or column.period is not None:
        return []
    x, length, width = column.x, np.abs(column.arrived - column.x), column.high - column.low
    ends = (x <= x.min() + _END * width).sum(), (x >= x.max() - _END * width).sum()
    jumps: list[int] = np.flatnonzero(length >= _WRAP * width).tolist()
    # A spike crosses the range twice for one value at its end; a switch has few levels.
    rare = min(ends) < max(3.0, 0.6 * len(jumps)) or column.levels <= _FEW_LEVELS
    return [] if rare or np.median(length) > _SHORT * width else jumps


def _reward(columns: Sequence[Column], num_terminated: int) -> Finding:
    topic = "reward"
    if not columns:
        advice = "State the objective: --cost '(level - 1)**2', or a column"
        return warning(topic, "no reward is given", advice)
    (reward,) = columns
    if reward.levels > 1:
        return ok(topic, f"between {reward.low:.4g} and {reward.high:.4g}")
    if num_terminated:
        return ok(topic, f"{reward.low:.4g} in every row; the task ends at different times")
    return error(
        topic,
        f"the reward is {reward.low:.4g} in every row and nothing terminates",
        "Check the reward column or the terminated flags: all policies have the same return",
    )


def _saturation(actions: Sequence[Column]) -> Finding:
    shown = []
    for one in actions:
        (low, high), rounding = one.bounds, _ROUNDING * (one.bounds[1] - one.bounds[0])
        below, above = float((one.x <= low + rounding).mean()), float((one.x >= high - rounding).mean())
        if max(below, above) > max(_SATURATED, _FAIR_SHARES / one.levels):
            ends = f"{low:.4g} in {share_of(below)} and at {high:.4g} in {share_of(above)}"
            shown.append(f"{one.name} is at {ends} of the rows")
    if shown:
        advice = "Check that the action is stored as applied, after clipping; no policy exceeds these bounds"
        return warning("saturation", "; ".join(shown), advice)
    few = [f"{one.name} has {one.levels} levels" for one in actions if 1 < one.levels <= _FEW_LEVELS]
    return ok("saturation", listed(few) if few else "no action is often at the ends of its range")


def _levels(actions: Sequence[Column], declared: Mapping[str, tuple[float, ...]]) -> Finding | None:
    """Return the finding about actions that take few values; None where there are none."""
    topic = "levels of actions"
    found = {
        one.name: _spelled(one.distinct[0])
        for one in actions
        if 1 < one.levels <= _FEW_LEVELS and one.distinct[1].min() >= _RECURS and one.name not in declared
    }
    if not found:
        kept = [f"{name} takes {_spelled(levels)} only" for name, levels in declared.items()]
        return ok(topic, f"declared: {listed(kept)}") if kept else None
    name, values = next(iter(found.items()))
    taken = "; ".join(f"{name} takes {values} only" for name, values in found.items())
    return warning(
        topic,
        f"{taken}; intermediate values are assumed to be possible",
        f"If they are not, declare levels={{'{name}': ({values})}} (in nopg.toml: levels = {{{name} = "
        f"[{values}]}}); a controller then takes these values alone",
    )


def _spelled(levels: Iterable[float]) -> str:
    return ", ".join(f"{level:.6g}" for level in levels)


def _outside(data: Transitions) -> Finding | None:
    """Return the finding about declared bounds; None where there are none."""
    topic = "declared bounds"
    try:
        check_bounds(data)
    except DataError as found:
        what, _, advice = str(found).rpartition("; ")
        return error(topic, what, advice[0].upper() + advice[1:])
    return ok(topic, f"kept by {listed([*data.schema.bounds])}") if data.schema.bounds else None
