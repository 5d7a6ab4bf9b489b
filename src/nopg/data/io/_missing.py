"""Missing values of a log: a rule per column says how they are repaired, and every repair is counted."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data._repairs import LEFT_OUT, REPAIRED, Repairs
from nopg.data.io._clock import Recording
from nopg.data.io._roles import Missing
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)

_RULE = re.compile(r"(refuse|drop)|(hold|interpolate)(?:[ :]+(\d+))?")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done about the missing values of a column.

    Attributes:
        kind: "refuse" them, "drop" their rows, "hold" the last value, or "interpolate" between two.
        rows: Largest number of successive rows to repair; None for as many as are no gap.

    Example:
        >>> Rule.parse("hold 5", "level")
        Rule(kind='hold', rows=5)
    """

    kind: Literal["refuse", "drop", "hold", "interpolate"]
    rows: int | None = None

    @classmethod
    def parse(cls, text: str, column: str) -> Rule:
        """Return the rule that a text such as "hold 5" names."""
        found = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None or found[3] == "0":
            raise ArgumentError(
                f"the rule for missing values of {column!r} is {text!r}; give 'refuse', 'drop', 'hold', "
                "'hold 5' or 'interpolate 3': 5 and 3 are the most successive rows to repair"
            )
        return cls(found[1] or found[2], None if found[3] is None else int(found[3]))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rule of every column, and the columns whose rule was declared."""

    by_column: Mapping[str, Rule]
    declared: frozenset[str]
    weight: Rule

    @classmethod
    def of(cls, missing: Missing | None, recording: Recording) -> Rules:
        """Return the rules as declared; by default values of a log with times are held, others refused."""
        columns = (*recording.names[0], *recording.names[1], recording.reward_name)
        in_sequence = "next_states" not in recording.rows
        usual = Rule("hold" if "times" in recording.rows and in_sequence else "refuse")
        given: dict[str, str] = {}
        if isinstance(missing, Mapping):
            given = {
                recording.reward_name if name == "reward" else name: one for name, one in missing.items()
            }
            if unknown := [name for name in given if name not in columns]:
                raise DataError(
                    f"a rule for missing values names {unknown[0]!r}; columns with a rule are {list(columns)}"
                )
        elif missing is not None:
            given = dict.fromkeys(columns, missing)
        rules = {name: Rule.parse(text, name) for name, text in given.items()}
        if not in_sequence and (repairs := [name for name, one in rules.items() if one.kind in REPAIRED]):
            raise ArgumentError(
                f"{repairs[0]!r} cannot be repaired by {given[repairs[0]]!r} where next states are columns "
                "of their own; give 'drop', or take those of the next rows: 'shift'"
            )
        weight = Rule("drop" if missing == "drop" else "refuse")
        return cls({name: rules.get(name, usual) for name in columns}, frozenset(given), weight)

    @property
    def dropped(self) -> frozenset[str]:
        """The columns whose missing values are left out where they are not repaired; "" is the weight."""
        rules = {**self.by_column, "": self.weight}
        return frozenset(name for name, rule in rules.items() if rule.kind != "refuse")


def repair_missing(
    log: Recording,
    rules: Rules,
    runs: BoolArray,
    *,
    gap_factor: float,
    periods: tuple[float | None, ...],
) -> tuple[Recording, BoolArray, BoolArray, dict[str, int]]:
    """Repair missing and infinite values column by column, in place.

    A stretch of missing values is repaired if it has at most as many rows as the rule says and a value of
    the same run before it; for interpolation, and for actions and rewards, also one after it. Others stay
    missing: rows without an action at the end of a run hold only a state. A rule without a number repairs as
    many rows as `gap_factor` times the usual distance of the column's values.

    Args:
        log: The rows, in order of time in every run.
        rules: The rule of every column.
        runs: True where row i+1 continues the run of row i, shape (n−1,).
        gap_factor: Greatest distance of two values in usual ones.
        periods: Period of every state column, None where it is no angle.

    Returns:
        The repaired recording; whether a step may lead to a row, and whether one may begin at it, shape (n,);
        and for how many rows a state is held at runtime, by name.
    """
    run: IntArray = np.cumsum(np.insert(~runs, 0, False))
    times = log.rows.get("times", np.arange(len(run), dtype=np.float64))
    parts = {name: log.rows[name] for name in ("states", "actions", "rewards")}
    states, actions = log.names
    columns = [*zip(states, parts["states"].T, periods, strict=True)]
    columns += [(name, values, None) for name, values in zip(actions, parts["actions"].T, strict=True)]
    columns.append((log.reward_name, parts["rewards"], None))
    arrives, departs = np.full((2, len(run)), True)
    leads, lost = np.append(runs, False) | log.rows["terminated"], np.zeros(len(run), dtype=np.bool_)
    hold, counts, notes = dict[str, int](), dict[str, int](), list[str]()
    for number, (name, values, period) in enumerate(columns):
        rule, known, is_state = rules.by_column[name], np.isfinite(values), number < len(states)
        declared = name in rules.declared
        if rule.kind == "refuse" or (known.all() and not declared):
            continue
        if rule.kind in REPAIRED:
            most, every = _most_rows(rule, known, run, gap_factor)
            both = not is_state or rule.kind == "interpolate"
            fixed = _repair(values, known, rule.kind, run, times, most=most, both_ends=both, period=period)
            if fixed:
                counts[f"{name}: {REPAIRED[rule.kind]}"] = fixed
            if is_state and (declared or fixed):
                hold[name] = most
            if every > 1:
                notes.append(f"{name} has a value in every {every} rows; it is repaired over up to {most}")
            known = np.isfinite(values)
        departs &= known
        arrives &= known | (not is_state)
        lost |= ~known if is_state else ~known & leads
    if found := int(lost.sum()):
        counts[LEFT_OUT] = found
    if counts:
        _log.info("%s: %s", log.source, "; ".join(f"{what}: {found}" for what, found in counts.items()))
    log = replace(log, rows={**log.rows, **parts}).noted(Repairs(counts, tuple(notes)))
    return log, arrives, departs, hold


def _most_rows(rule: Rule, known: BoolArray, run: IntArray, gap_factor: float) -> tuple[int, int]:
    """Return how many successive rows are repaired, and the usual distance of two values in rows."""
    if rule.rows is not None:
        return rule.rows, 1
    places = np.flatnonzero(known)
    apart = np.diff(places)[run[places][1:] == run[places][:-1]]
    every = int(np.median(apart)) if len(apart) else 1
    return max(int(min(gap_factor * every, len(known))), 1), every


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
