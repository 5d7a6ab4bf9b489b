"""A recording to transitions: clock, repairs of missing values by rules, next states, episodes and starts."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
import torch

from nopg._columns import GAP_FACTOR
from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data._checks import finite_rows, flagged_episodes
from nopg.data._repairs import LEFT_OUT, REPAIRED, Repairs
from nopg.data._schema import declared_schema, resolve_angles
from nopg.data._transitions import Transitions, assemble
from nopg.data.io._clock import Recording, on_clock
from nopg.data.io._roles import Settings
from nopg.errors import ArgumentError, DataError

_RULE = re.compile(r"(refuse|drop)|(hold|interpolate)(?:[ :]+(\d+))?")
_log = logging.getLogger(__name__)
_TAKEN_OVER = "one long recording: the task may start in any row, unless its starts are set to episodes"


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


class Shifted(NamedTuple):
    """Which of n rows are transitions to their next rows.

    `kept` (n,) are; of those `linked` (n,) have the state of the next row as next state, the others ended in
    a terminal state that was not recorded. Of the m kept ones (m,) flags of ends, and numbers of unbroken
    segments from 0.
    """

    kept: BoolArray
    linked: BoolArray
    terminated: BoolArray
    truncated: BoolArray
    segments: IntArray


def shift(
    connected: BoolArray,
    terminated: BoolArray,
    truncated: BoolArray,
    *,
    idle: BoolArray,
    whole_episodes: bool,
) -> Shifted:
    """Find the transitions of n rows of a recording.

    A row is a transition if the next row continues its recording, or if it is terminated. Any other last row
    holds only the state in which the recording ended, and the row before it is truncated.

    `connected` (n−1,) is True where row i+1 was recorded right after row i. An `idle` row has no action: it
    can only be the final state of an episode. With `whole_episodes`, `connected` respects the logged
    episodes; then a single row after an end is its final state.

    Example:
        >>> ends = np.array([False, False, True, False, False, False])
        >>> found = shift(np.full(5, True), ends, np.zeros(6, bool), idle=np.zeros(6, bool),
        ...               whole_episodes=False)
        >>> np.flatnonzero(found.kept).tolist(), np.flatnonzero(found.linked).tolist()
        ([0, 1, 2, 3, 4], [0, 1, 3, 4])
    """
    follows = np.append(connected, False)  # row i+1 continues row i
    preceded = np.insert(connected, 0, False)

    def at_the_step(flags: BoolArray) -> BoolArray:
        # An end on a row without an action belongs to the step before it.
        return np.asarray((flags & ~idle) | np.append((flags & idle & preceded)[1:], False))

    terminated, truncated = at_the_step(terminated), at_the_step(truncated)
    ends = terminated | truncated
    # The row after an end is its final state if it is nothing else; otherwise an episode starts there.
    alone = idle | (~follows & ~ends & whole_episodes)
    final = preceded & np.insert(ends[:-1], 0, False) & alone
    linked = follows & ~final & (~ends | np.append(final[1:], False))

    kept = linked | (terminated & ~final)
    last = ~np.append(kept[1:], False) | ~linked
    segments = np.cumsum(np.insert(~linked[:-1], 0, False)[kept], dtype=np.int64)
    segments -= segments[:1]
    return Shifted(kept, linked, terminated[kept], (last & ~terminated)[kept], segments)


def start_rows(rows: IntArray, continues: BoolArray, linked: BoolArray, most_lost: float) -> IntArray | None:
    """Return which of m transitions start the task; None if every unbroken segment does.

    An episode starts at the first transition after its beginning, unless more than `most_lost` rows are
    missing before it. If no episode has such a start, all segments count. `rows` (m,) are those of the log,
    ascending; row i+1 `continues` (n−1,) the episode of row i, and is `linked` (n−1,) where a transition
    leads to it.
    """
    beginnings = np.flatnonzero(np.insert(~continues, 0, True))
    episode = np.searchsorted(beginnings, rows, side="right") - 1
    first = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
    near = rows[first] - beginnings[episode[first]] <= most_lost
    segments = np.searchsorted(np.flatnonzero(~linked), rows)
    if bool(near.all()) and len(first) == 1 + np.count_nonzero(segments[1:] != segments[:-1]):
        return None
    return first[near] if bool(near.any()) else None


def to_transitions(log: Recording, **settings: Unpack[Settings]) -> Transitions:
    """Return the transitions of a recording, whose arrays the caller must not use afterwards."""
    if settings.get("starts") not in (None, "episodes", "rows"):
        raise ArgumentError(f"starts is {settings['starts']!r}; give 'episodes' or 'rows'")
    if settings.get("starts") is not None and settings.get("initial_states") is not None:
        raise ArgumentError("starts and initial_states are given; give one of them")
    angles = resolve_angles(settings.get("angles"), log.names[0])
    periods = tuple(angles.get(name) for name in log.names[0])
    in_sequence, gap_factor = "next_states" not in log.rows, settings.get("gap_factor", GAP_FACTOR)
    log, recorded, connected, interval = on_clock(log, settings, periods)
    rules, ends, hold = rules_of(settings.get("missing"), log), log.ends, dict[str, int]()
    idle = np.zeros(len(ends), dtype=np.bool_)
    if in_sequence:
        runs = connected & ~ends[:-1]
        log, arrives, departs, hold = repair_missing(log, rules, runs, gap_factor=gap_factor, periods=periods)
        connected = connected & arrives[1:] & departs[:-1]
        idle = np.isnan(log.rows["actions"]).all(axis=1)
        flags = log.rows["terminated"], log.rows["truncated"]
        found = shift(connected, *flags, idle=idle, whole_episodes="episodes" in log.rows)
    else:
        found = _logged(log, recorded, connected)
    if not found.kept.any():
        raise DataError(
            f"{log.source}: no row has a next state, all {len(idle)} are unconnected. Name the columns of "
            "the next states, or the column of the episode"
        )
    kept = {name: part[found.kept] for name, part in log.rows.items()}
    kept |= {"terminated": found.terminated, "truncated": found.truncated}
    number, _ = kept.pop("number", np.flatnonzero(found.kept)), kept.pop("times", None)
    if in_sequence:
        following = np.flatnonzero(found.kept)
        kept["next_states"] = log.rows["states"][following + found.linked[following]]
    usable = finite_rows(
        kept,
        log.names,
        [name for name, rule in rules.items() if rule.kind != "refuse"],
        rows=number,
        source=log.source,
        reward=log.reward_name,
        advice="state a rule for missing values: 'drop', 'hold 5' or 'interpolate 3'",
    )
    starts = None
    if in_sequence or bool((recorded & ~connected).any()):
        rows = np.flatnonzero(found.kept)[usable]
        starts = start_rows(rows, recorded & ~(ends | idle)[:-1], found.linked[:-1], gap_factor)
    if not in_sequence and (lost := int((~usable).sum())):
        log = log.noted(Repairs({LEFT_OUT: lost}))
    if (episodes := _episodes(log, found, in_sequence=in_sequence)) is not None:
        kept["episodes"] = episodes
    declared = {name: cast(Any, settings).get(name) for name in ("units", "bounds", "levels", "exogenous")}
    derived = dict(settings.get("derived") or {})
    hold = {**(settings.get("hold") or {}), **{name: n for name, n in hold.items() if name not in derived}}
    schema = declared_schema(
        log.names, **declared, angles=angles, derived=derived, interval=interval, hold=hold
    )
    data = _with_starts(assemble(kept, schema, usable, repairs=log.repairs), starts, settings, log)
    for line in str(data.repairs).splitlines():
        _log.info("%s: %s", log.source, line)
    return data if log.formula is None else data.with_reward(log.formula)


def _logged(log: Recording, recorded: BoolArray, connected: BoolArray) -> Shifted:
    """Return rows whose next states were logged; those at a gap in time are truncated."""
    terminated, cut = log.rows["terminated"], np.append(recorded & ~connected, False)
    return Shifted(
        kept=np.full(len(terminated), True),
        linked=np.append(connected, False),
        terminated=terminated,
        truncated=(log.rows["truncated"] | cut) & ~terminated,
        segments=np.cumsum(np.insert(~connected, 0, False), dtype=np.int64),
    )


def _episodes(log: Recording, found: Shifted, *, in_sequence: bool) -> IntArray | None:
    """Return the logged episode numbers if every episode is one segment, else numbers of segments."""
    given = log.rows["episodes"][found.kept] if "episodes" in log.rows else None
    if in_sequence or "times" in log.rows:
        # A segment never spans two episodes, so equal counts mean that none was split.
        whole = given is not None and len(np.unique(given)) == len(np.unique(found.segments))
        return given if whole else np.add(found.segments, log.new_episodes_from, out=found.segments)
    if given is not None:
        return given
    numbers = flagged_episodes(log.rows["states"], log.rows["next_states"], log.ends, log.same_run)
    return None if numbers is None else log.new_episodes_from + numbers


def _with_starts(
    data: Transitions, starts: IntArray | None, settings: Settings, log: Recording
) -> Transitions:
    """Return the dataset with declared starts, else those in rows, None for the first of every episode.

    The single beginning of a log without episodes is an accident of the export: a controller may take over in
    any row.
    """
    if (declared := settings.get("initial_states")) is not None:
        return data.starting_at(declared)
    choice = settings.get("starts")
    if data.begins is not None and choice is None:
        return data
    data = replace(data, begins=None)
    single = data.start_kind == "rows" and data.episodes is not None
    unnamed = "episodes" not in log.rows and not bool(data.terminated[-1])
    cut = unnamed and starts is not None and len(starts) == 1
    if choice == "episodes" and single:
        starts = np.zeros(1, dtype=np.int64)
    elif choice == "rows" or (choice is None and cut):
        starts = np.arange(len(data))
    if starts is not None:
        begins = torch.zeros(len(data), dtype=torch.bool)
        begins[torch.from_numpy(starts)] = True
        data = replace(data, begins=begins)
    if choice is None and unnamed and (cut or single) and "times" in log.rows:
        data = replace(data, repairs=data.repairs + Repairs(notes=(_TAKEN_OVER,)))
    return data
