"""Missing values of a log: a rule per column says how they are repaired, and every repair is counted."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nopg.data._repairs import LEFT_OUT, REPAIRED, Repairs
from nopg.data.io._recording import Flags, Floats, Integers, Recording
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)

Missing = str | Mapping[str, str]
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
        in_sequence = recording.next_states is None
        usual = Rule("hold" if recording.times is not None and in_sequence else "refuse")
        given: dict[str, str] = {}
        if isinstance(missing, Mapping):
            given = {
                recording.reward_name if name == "reward" else name: one for name, one in missing.items()
            }
            if unknown := [name for name in given if name not in columns]:
                raise DataError(
                    f"missing names {unknown[0]!r}, which is no column with a rule; those are {list(columns)}"
                )
        elif missing is not None:
            given = dict.fromkeys(columns, missing)
        rules = {name: Rule.parse(text, name) for name, text in given.items()}
        if not in_sequence and (repairs := [name for name, one in rules.items() if one.kind in REPAIRED]):
            raise ArgumentError(
                f"{repairs[0]!r} cannot be repaired by {given[repairs[0]]!r} where next states are columns "
                "of their own; give 'drop', or next_states='shift'"
            )
        weight = Rule("drop" if missing == "drop" else "refuse")
        return cls({name: rules.get(name, usual) for name in columns}, frozenset(given), weight)

    @property
    def dropped(self) -> frozenset[str]:
        """The columns whose missing values are left out where they are not repaired; "" is the weight."""
        rules = {**self.by_column, "": self.weight}
        return frozenset(name for name, rule in rules.items() if rule.kind != "refuse")


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired recording.

    Attributes:
        recording: Its missing values are repaired where their rules allow.
        arrives: Whether a step may lead to a row: its state is known, or refused later, shape (n,).
        departs: Whether a step may begin at a row, shape (n,).
        hold: Number of rows for which a state is held at runtime, by name.
    """

    recording: Recording
    arrives: Flags
    departs: Flags
    hold: Mapping[str, int]


def repair_missing(
    recording: Recording,
    rules: Rules,
    runs: Flags,
    *,
    gap_factor: float,
    periods: tuple[float | None, ...],
) -> Repaired:
    """Repair missing and infinite values in place, column by column.

    A stretch of missing values is repaired if it has at most as many rows as the rule says and a value of
    the same run before it; for interpolation, and for actions and rewards, also one after it. Others stay
    missing: rows without an action at the end of a run hold only a state. A rule without a number repairs as
    many rows as `gap_factor` times the usual distance of the column's values.

    Args:
        recording: The rows, in order of time in every run.
        rules: The rule of every column.
        runs: True where row i+1 continues the run of row i, shape (n−1,).
        gap_factor: Greatest distance of two values in usual ones.
        periods: Period of every state column, None where it is no angle.
    """
    span = _Runs.of(runs, recording.times)
    arrives, departs = np.full((2, len(runs) + 1), True)
    leads, lost = np.append(runs, False) | recording.flags[0], np.zeros(len(arrives), dtype=np.bool_)
    hold: dict[str, int] = {}
    counts: dict[str, int] = {}
    notes: list[str] = []
    for name, values, is_state, period in _columns(recording, periods):
        rule, known = rules.by_column[name], np.isfinite(values)
        declared = name in rules.declared
        if rule.kind == "refuse" or (known.all() and not declared):
            continue
        if rule.kind in REPAIRED:
            most, every = _most_rows(rule, known, runs, gap_factor)
            fixed = span.repair(values, known, rule.kind, most, both_ends=not is_state, period=period)
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
    if number := int(lost.sum()):
        counts[LEFT_OUT] = number
    if counts:
        said = "; ".join(f"{what}: {number}" for what, number in counts.items())
        _log.info("%s: %s", recording.source, said)
    repairs = recording.repairs + Repairs(counts, tuple(notes))
    return Repaired(replace(recording, repairs=repairs), arrives, departs, hold)


def _columns(
    recording: Recording, periods: tuple[float | None, ...]
) -> Iterator[tuple[str, Floats, bool, float | None]]:
    """Yield name, values, whether it is a state, and the period of every column."""
    states, actions = recording.names
    for name, column, period in zip(states, recording.states.T, periods, strict=True):
        yield name, column, True, period
    for name, column in zip(actions, recording.actions.T, strict=True):
        yield name, column, False, None
    yield recording.reward_name, recording.rewards, False, None


def _most_rows(rule: Rule, known: Flags, runs: Flags, gap_factor: float) -> tuple[int, int]:
    """Return how many successive rows are repaired, and the usual distance of two values in rows."""
    places = np.flatnonzero(known)
    run = np.insert(np.cumsum(~runs), 0, 0)
    apart = np.diff(places)[run[places][1:] == run[places][:-1]]
    every = int(np.median(apart)) if len(apart) else 1
    if rule.rows is not None:
        return rule.rows, 1
    return max(int(min(gap_factor * every, len(known))), 1), every


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of rows: the first and the last row of the run of every row, and the time of every row."""

    first: Integers
    last: Integers
    times: Floats

    @classmethod
    def of(cls, runs: Flags, times: Floats | None) -> _Runs:
        rows = np.arange(len(runs) + 1)
        first = np.maximum.accumulate(np.where(np.insert(runs, 0, False), 0, rows))
        last = np.minimum.accumulate(np.where(np.append(runs, False), len(runs), rows)[::-1])[::-1]
        return cls(first, last, rows.astype(np.float64) if times is None else times)

    def repair(
        self,
        values: Floats,
        known: Flags,
        kind: str,
        most: int,
        *,
        both_ends: bool,
        period: float | None,
    ) -> int:
        """Repair stretches of at most `most` values in place, and return the number of values."""
        rows, far = np.arange(len(values)), len(values)
        before = np.maximum.accumulate(np.where(known, rows, -1))
        after = np.minimum.accumulate(np.where(known, rows, far)[::-1])[::-1]
        begun, ended = before >= self.first, after <= self.last
        length = np.where(ended, after, self.last + 1) - before - 1
        needs_end = both_ends or kind == "interpolate"
        fixed = np.flatnonzero(~known & begun & (ended | (not needs_end)) & (length <= most))
        low = before[fixed]
        if kind == "hold":
            values[fixed] = values[low]
            return len(fixed)
        high = after[fixed]
        change = values[high] - values[low]
        if period is not None:
            change -= period * np.round(change / period)
        share = (self.times[fixed] - self.times[low]) / (self.times[high] - self.times[low])
        values[fixed] = values[low] + share * change
        return len(fixed)
