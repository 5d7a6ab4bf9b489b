"""Findings about single columns: constant columns, far values, angles, the reward, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nopg._columns import NO_REWARD
from nopg.inspect._columns import FEW_LEVELS, NEAR_CONSTANT, Column
from nopg.inspect._findings import Finding, error, graded, ok, warning
from nopg.inspect._wording import count_of, listed, share_of


def column_findings(
    columns: Sequence[Column],
    num_terminated: int,
    formula: str | None,
    levels: Mapping[str, tuple[float, ...]],
) -> list[Finding | None]:
    """Return the findings about the columns: states, actions, the reward as the last.

    Args:
        columns: Of the log.
        num_terminated: Number of rows that end the task.
        formula: Of the reward, where it is one.
        levels: Declared levels of actions, by name.
    """
    inputs = columns[:-1]
    return [
        _constant(inputs),
        _far(columns),
        _angles(columns),
        _reward(columns[-1], num_terminated, formula),
        _at_bounds([column for column in columns if column.role == "action"]),
        _levels([column for column in columns if column.role == "action"], levels),
        _outside([column for column in columns if column.declared]),
    ]


def _constant(inputs: Sequence[Column]) -> Finding:
    topic = "constant columns"
    constant = [column for column in inputs if column.constant]
    if actions := [column.name for column in constant if column.role == "action"]:
        return error(
            topic,
            f"the action {listed(actions)} never changes",
            "Vary it in the plant, or leave it out: the effect of a constant action cannot be learned",
        )
    if constant:
        shown = listed([f"{column.name} = {column.low:.6g}" for column in constant])
        return error(topic, f"{shown} in every row", "Leave it out of the states: it carries no information")
    if near := [_hardly(column) for column in inputs if column.near_constant]:
        return warning(
            topic,
            listed(near),
            "Leave it out if it does not matter; if it does, record more rows in which it varies",
        )
    return ok(topic, "every state and action column varies")


def _hardly(column: Column) -> str:
    if column.commonest >= NEAR_CONSTANT:
        return f"{column.name} = {column.mode:.6g} in {share_of(column.commonest)} of the rows"
    return f"{column.name} varies by {column.high - column.low:.1g} around {column.median:.6g}"


def _far(columns: Sequence[Column]) -> Finding:
    shown = "; ".join(
        f"{column.name} has {count_of(len(column.far), 'value')} far from all others "
        f"(row {listed(column.far)}; range {column.low:.4g} to {column.high:.4g})"
        for column in columns
        if column.far
    )
    if not shown:
        return ok("far values", "no value lies far from all others")
    return error(
        "far values", shown, "Drop these rows if they are error codes or spikes: they widen the range"
    )


def _angles(columns: Sequence[Column]) -> Finding:
    topic, wrapped = "angles", [column for column in columns if column.jumps]
    if not wrapped:
        declared = [column.name for column in columns if column.period is not None]
        return ok(topic, f"declared: {listed(declared)}" if declared else "no column wraps like an angle")
    shown = "; ".join(
        f"{column.name} crosses its whole range in one step {count_of(len(column.jumps), 'time')} "
        f"(row {listed(column.jumps)})"
        for column in wrapped
    )
    first = wrapped[0]
    period = f"angles={{'{first.name}': {first.high - first.low:.3g}}}"
    return warning(topic, shown, f"If it is an angle, declare it with its period: {period}")


def _reward(reward: Column, num_terminated: int, formula: str | None) -> Finding:
    topic = "reward"
    if formula == NO_REWARD:
        return warning(
            topic, "no reward is given", "State the objective: --cost '(level - 1)**2', or a column"
        )
    if not reward.constant:
        return ok(topic, f"between {reward.low:.4g} and {reward.high:.4g}")
    if num_terminated:
        return ok(topic, f"{reward.low:.4g} in every row; the task ends at different times")
    return error(
        topic,
        f"the reward is {reward.low:.4g} in every row and nothing terminates",
        "Check the reward column or the terminated flags: all policies have the same return",
    )


def _at_bounds(actions: Sequence[Column]) -> Finding:
    topic = "actions at bounds"
    shown = "; ".join(
        f"{column.name} is at {column.bounds[0]:.4g} in {share_of(column.at_low)} "
        f"and at {column.bounds[1]:.4g} in {share_of(column.at_high)} of the rows"
        for column in actions
        if column.saturated
    )
    if shown:
        return warning(
            topic,
            shown,
            "Check that the action is stored as applied, after clipping; no policy will exceed these bounds",
        )
    few = [f"{one.name} has {one.levels} levels" for one in actions if 1 < one.levels <= FEW_LEVELS]
    return ok(topic, listed(few) if few else "no action is often at the ends of its range")


def _levels(actions: Sequence[Column], declared: Mapping[str, tuple[float, ...]]) -> Finding | None:
    """Return the finding about actions that take few values; None where there are none."""
    topic = "levels of actions"
    found = [column for column in actions if len(column.values) > 1 and column.name not in declared]
    if not found:
        kept = [f"{name} takes {_spelled(levels)} only" for name, levels in declared.items()]
        return ok(topic, f"declared: {listed(kept)}") if kept else None
    shown = "; ".join(f"{column.name} takes {_spelled(column.values)} only" for column in found)
    first = found[0]
    return warning(
        topic,
        f"{shown}; actions between are assumed to be possible",
        f"If they are not, declare levels={{'{first.name}': ({_spelled(first.values)})}}, or --levels "
        f"{first.name}={_spelled(first.values).replace(' ', '')}; a controller then takes these values alone",
    )


def _spelled(levels: Sequence[float]) -> str:
    return ", ".join(f"{level:.6g}" for level in levels)


def _outside(declared: Sequence[Column]) -> Finding | None:
    """Return the finding about declared bounds; None where there are none."""
    topic, outside = "declared bounds", [column for column in declared if column.outside]
    if not declared:
        return None
    if not outside:
        return ok(topic, f"kept by {listed([column.name for column in declared])}")
    shown = "; ".join(
        f"{column.name} leaves [{column.bounds[0]:.4g}, {column.bounds[1]:.4g}] in "
        f"{count_of(len(column.outside), 'row')} (row {listed(column.outside)})"
        for column in outside
    )
    advice = "Correct the bounds, or drop the rows if the sensor erred"
    if actions := any(column.role == "action" for column in outside):
        advice = "Store the action as applied, after clipping, or correct the bounds"
    return graded(topic, shown, advice, grave=actions)
