"""Missing values of a log: a rule per column says how they are repaired, and every repair is counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data._repairs import LEFT_OUT, REPAIRED, Repairs
from nopg.data.io._clock import Recording
from nopg.errors import ArgumentError, DataError

_RULE = re.compile(r"(refuse|drop)|(hold|interpolate)(?:[ :]+(\d+))?")


class Rule(NamedTuple):
    """What is done about missing values: "refuse", "drop" their rows, "hold" the last value, "interpolate".

    `rows` is the largest number of successive rows to repair, None for as many as are no gap; `declared` is
    whether the user stated the rule.
    """

    kind: str
    rows: int | None = None
    declared: bool = False


def rules_of(missing: str | Mapping[str, str] | None, recording: Recording) -> dict[str, Rule]:
    """Return the rule of every column, "" for the weight.

    By default values of a log with times are held, others refused.
    """
    columns = (*recording.names[0], *recording.names[1], recording.reward_name)
    in_sequence = "next_states" not in recording.rows
    usual = Rule("hold" if "times" in recording.rows and in_sequence else "refuse")
    rules = dict.fromkeys(columns, usual) | {"": Rule("drop" if missing == "drop" else "refuse")}
    every = {} if missing is None else dict.fromkeys(columns, missing)
    given = missing if isinstance(missing, Mapping) else every
    for key, text in given.items():
        name = recording.reward_name if key == "reward" else key
        if name not in columns:
            raise DataError(
                f"a rule for missing values names {name!r}; columns with a rule are {list(columns)}"
            )
        found = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None or found[3] == "0":
            raise ArgumentError(
                f"the rule for missing values of {name!r} is {text!r}; give 'refuse', 'drop', 'hold', "
                "'hold 5' or 'interpolate 3': 5 and 3 are the most successive rows to repair"
            )
        rules[name] = Rule(found[1] or found[2], None if found[3] is None else int(found[3]), declared=True)
        if not in_sequence and rules[name].kind in REPAIRED:
            raise ArgumentError(
                f"{name!r} cannot be repaired by {text!r} where next states are columns of their own; give "
                "'drop', or take those of the next rows: 'shift'"
            )
    return rules


def repair_missing(
    log: Recording,
    rules: Mapping[str, Rule],
    runs: BoolArray,
    *,
    gap_factor: float,
    periods: tuple[float | None, ...],
) -> tuple[Recording, BoolArray, BoolArray, dict[str, int]]:
    """Repair missing and infinite values column by column, in place.

    A stretch of missing values is repaired if it has at most as many rows as the rule says and a value of
    the same run before it; for interpolation, and for actions and rewards, also one after it. A rule without
    a number repairs as many rows as `gap_factor` times the usual distance of the column's values. `runs`
    (n−1,) is True where row i+1 continues the run of row i. With the recording come whether a step may lead
    to a row and may begin at it, each (n,), and for how many rows a state is held at runtime, by name.
    """
    run: IntArray = np.cumsum(np.insert(~runs, 0, False))
    times = log.rows.get("times", np.arange(len(run), dtype=np.float64))
    parts = {name: log.rows[name] for name in ("states", "actions", "rewards")}
    (states, actions), unturned = log.names, (None,) * (len(log.names[1]) + 1)
    values_of = [*parts["states"].T, *parts["actions"].T, parts["rewards"]]
    names = (*states, *actions, log.reward_name)
    arrives, departs = np.full((2, len(run)), True)
    leads, lost = np.append(runs, False) | log.rows["terminated"], np.zeros(len(run), dtype=np.bool_)
    hold, counts = dict[str, int](), dict[str, int]()
    for number, (name, values, period) in enumerate(
        zip(names, values_of, (*periods, *unturned), strict=True)
    ):
        rule, known, is_state = rules[name], np.isfinite(values), number < len(states)
        if rule.kind == "refuse" or (known.all() and not rule.declared):
            continue
        if rule.kind in REPAIRED:
            most = rule.rows
            if most is None:  # as many as `gap_factor` times the usual distance of two values
                places = np.flatnonzero(known)
                apart = np.diff(places)[run[places][1:] == run[places][:-1]]
                every = int(np.median(apart)) if len(apart) else 1
                most = max(int(min(gap_factor * every, len(known))), 1)
            both = not is_state or rule.kind == "interpolate"
            fixed = _repair(values, known, rule.kind, run, times, most=most, both_ends=both, period=period)
            if fixed:
                counts[f"{name}: {REPAIRED[rule.kind]}"] = fixed
            if is_state and (rule.declared or fixed):
                hold[name] = most
            known = np.isfinite(values)
        departs &= known
        arrives &= known | (not is_state)
        lost |= ~known if is_state else ~known & leads
    if found := int(lost.sum()):
        counts[LEFT_OUT] = found
    log = replace(log, rows={**log.rows, **parts}).noted(Repairs(counts))
    return log, arrives, departs, hold


def _repair(
    values: FloatArray,
    known: BoolArray,
    kind: str,
    run: IntArray,
    times: FloatArray,
    *,
    most: int,
    both_ends: bool,
    period: float | None,
) -> int:
    """Repair stretches of at most `most` values in place, and return the number of values."""
    import pandas as pd

    frame = pd.DataFrame({"value": values, "time": times}).where(pd.Series(known))
    before, after = frame.groupby(run).ffill(), frame.groupby(run).bfill()
    stretch = np.cumsum(known | np.insert(np.diff(run) > 0, 0, True))
    length = np.bincount(stretch, ~known)[stretch]
    near = (length <= most) & before["value"].notna() & (after["value"].notna() | (not both_ends))
    fixed = np.flatnonzero(~known & near)
    low, high = before.to_numpy()[fixed], after.to_numpy()[fixed]
    values[fixed] = low[:, 0]
    if kind == "interpolate":
        change = high[:, 0] - low[:, 0]
        if period is not None:
            change -= period * np.round(change / period)
        values[fixed] += (times[fixed] - low[:, 1]) / (high[:, 1] - low[:, 1]) * change
    return len(fixed)
