"""A recording to transitions: time, missing values, next states, episodes and starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch

from nopg._columns import GAP_FACTOR
from nopg.data._levels import as_levels, check_levels
from nopg.data._repairs import LEFT_OUT, Repairs
from nopg.data._schema import Schema, exogenous_kinds, resolve_angles
from nopg.data._sequence import flagged_episodes
from nopg.data._transitions import Transitions, check_numbers
from nopg.data._validation import finite_rows
from nopg.data.io._clock import Clock, in_seconds, merge_repeated
from nopg.data.io._missing import Rules, repair_missing
from nopg.data.io._recording import Flags, Floats, Integers, Recording
from nopg.data.io._resample import Links, resample
from nopg.data.io._roles import Settings
from nopg.data.io._shift import Shifted, shift
from nopg.data.io._starts import start_rows
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)
_CHUNK = 1 << 16
_ADVICE = "state a rule for missing values: 'drop', 'hold 5' or 'interpolate 3'"
_TAKEN_OVER = "one long recording: the task may start in any row, unless starts='episodes' says otherwise"
_Parts = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Assembled:
    """The arrays of a dataset.

    Attributes:
        parts: Arrays by name, a row per transition.
        usable: Which of these transitions hold finite numbers only.
        repairs: What was repaired.
        starts: Transitions, of the usable ones, that start the task; None for the first of every episode.
        interval: Sampling interval in seconds, where it is known.
        hold: Number of steps for which a state is held at runtime, by name.
    """

    parts: _Parts
    usable: Flags
    repairs: Repairs
    starts: Integers | None = None
    interval: float | None = None
    hold: Mapping[str, int] = field(default_factory=dict)


def to_transitions(recording: Recording, **settings: Unpack[Settings]) -> Transitions:
    """Return the transitions of a recording.

    The arrays of the recording become those of the dataset; the caller must not use them afterwards.
    """
    _check_starts(settings)
    recording, units = in_seconds(recording, settings.get("units") or {})
    angles = resolve_angles(settings.get("angles"), recording.names[0])
    in_sequence = recording.next_states is None
    found = _shifted(recording, settings, angles) if in_sequence else _logged(recording, settings)
    derived = dict(settings.get("derived") or {})
    held = {name: rows for name, rows in found.hold.items() if name not in derived}
    schema = Schema(
        *recording.names,
        angles,
        units,
        dict(settings.get("bounds") or {}),
        derived=derived,
        exogenous=exogenous_kinds(settings.get("exogenous")),
        interval=found.interval,
        hold={**(settings.get("hold") or {}), **held},
        levels=as_levels(settings.get("levels")),
    )
    parts = found.parts
    if not bool(found.usable.all()):
        parts = {name: part[found.usable] for name, part in parts.items()}
    arrays: dict[str, Any] = {name: torch.from_numpy(part) for name, part in parts.items()}
    data = Transitions(schema=schema, repairs=found.repairs, **arrays)
    check_levels(data.actions, schema.actions, schema.levels)
    check_numbers(data)
    data = _with_starts(data, found.starts, settings, recording)
    return data if recording.formula is None else data.with_reward(recording.formula)


def _check_starts(settings: Settings) -> None:
    starts = settings.get("starts")
    if starts not in (None, "episodes", "rows"):
        raise ArgumentError(f"starts is {starts!r}; give 'episodes' or 'rows'")
    if starts is not None and settings.get("initial_states") is not None:
        raise ArgumentError("starts and initial_states are given; give one of them")


def _with_starts(
    data: Transitions, starts: Integers | None, settings: Settings, recording: Recording
) -> Transitions:
    """Return the dataset with the declared starts, else with those that were found.

    The single beginning of a log without episodes is an accident of the export: a controller may take over in
    any row.

    Args:
        data: The dataset, with the marks of a column if there is one.
        starts: Rows that start the task; None for the first of every episode.
        settings: Of the reader.
        recording: The rows as they were logged.
    """
    if (declared := settings.get("initial_states")) is not None:
        return data.starting_at(declared)
    choice, rows = settings.get("starts"), len(data)
    if data.begins is not None and choice is None:
        return data
    data = replace(data, begins=None)
    single = data.start_kind == "rows" and data.episodes is not None
    if choice == "episodes" and single:
        return replace(data, begins=torch.arange(rows) == 0)
    unnamed = recording.episodes is None and not bool(data.terminated[-1])
    cut = unnamed and starts is not None and len(starts) == 1
    if choice == "rows" or (choice is None and cut):
        data = replace(data, begins=torch.ones(rows, dtype=torch.bool))
    elif starts is not None:
        data = replace(data, begins=_marks(starts, rows))
    if choice is None and unnamed and (cut or single) and recording.times is not None:
        _log.info("%s", _TAKEN_OVER)
        data = replace(data, repairs=data.repairs + Repairs(notes=(_TAKEN_OVER,)))
    return data


def _marks(numbers: Integers, rows: int) -> torch.Tensor:
    """Return flags of rows, True at these numbers."""
    found = torch.zeros(rows, dtype=torch.bool)
    found[torch.from_numpy(numbers)] = True
    return found


def _logged(recording: Recording, settings: Settings) -> _Assembled:
    """Return the parts of a dataset whose next states were logged."""
    if settings.get("resample") is not None:
        raise ArgumentError(
            "rows with next states of their own cannot be resampled; take those of the next rows: 'shift'"
        )
    rules, gap_factor = Rules.of(settings.get("missing"), recording), settings.get("gap_factor", GAP_FACTOR)
    terminated, truncated = recording.flags
    parts = {name: part for name, part in recording.per_row.items() if name != "times"}
    order, grouped = recording.group_by_episode() if recording.times is not None else (None, recording)
    clock = Clock.of(grouped, settings.get("interval"), settings.get("gap_factor"))
    repairs = clock.repairs(resampled=False, source=str(recording.source))
    back = slice(None) if order is None else np.argsort(order)
    recorded = grouped.same_run
    connected = recorded & ~clock.gaps
    if recording.times is not None:
        truncated = truncated | np.append(clock.gaps, False)[back]
        segments = np.cumsum(np.insert(~connected, 0, False), dtype=np.int64)[back]
        parts["episodes"] = _episode_numbers(recording.new_episodes_from + segments, recording.episodes)
    elif recording.episodes is None:
        assert recording.next_states is not None
        found = flagged_episodes(recording.states, recording.next_states, terminated | truncated, recorded)
        parts |= {} if found is None else {"episodes": recording.new_episodes_from + found}
    parts |= {"terminated": terminated, "truncated": truncated & ~terminated}
    usable = finite_rows(
        parts,
        recording.names,
        rules.dropped,
        source=recording.source,
        reward=recording.reward_name,
        advice=_ADVICE,
    )
    if lost := int((~usable).sum()):
        repairs += Repairs({LEFT_OUT: lost})
    starts = None
    if bool(clock.gaps.any()):
        rows = np.flatnonzero(usable if order is None else usable[order])
        starts = start_rows(rows, recorded & ~np.logical_or(*grouped.flags)[:-1], connected, gap_factor)
        if starts is not None and order is not None:
            place = np.cumsum(usable) - 1
            starts = np.sort(place[order[rows[starts]]])
    return _Assembled(parts, usable, recording.repairs + repairs, starts, clock.interval)


def _shifted(recording: Recording, settings: Settings, angles: Mapping[str, float]) -> _Assembled:
    """Return the parts of a dataset whose next states are in the next rows."""
    order, recording = recording.group_by_episode()
    gap_factor = settings.get("gap_factor", GAP_FACTOR)
    periods = tuple(angles.get(name) for name in recording.names[0])
    recording, order, links, interval = _on_clock(recording, order, settings, periods)
    source, states = recording.source, recording.states

    ends = np.logical_or(*recording.flags)
    rules = Rules.of(settings.get("missing"), recording)
    runs = links.connected & ~ends[:-1]
    repaired = repair_missing(recording, rules, runs, gap_factor=gap_factor, periods=periods)
    connected = links.connected & repaired.arrives[1:] & repaired.departs[:-1]
    idle = np.asarray(np.isnan(recording.actions).all(axis=1))
    found = shift(connected, *recording.flags, idle=idle, whole_episodes=recording.episodes is not None)
    kept = found.kept
    if not bool(kept.any()):
        count = f"{len(states)} rows are" if len(states) > 1 else "the only row is"
        raise DataError(
            f"{source}: no row has a next state: {count} unconnected. Name the columns of the next states, "
            "or the column of the episode"
        )
    if unused := int((~kept).sum()):
        _log.info("%s: %d of %d rows have no next row and are no transitions", source, unused, len(states))
    following = _next_states(states, found)
    arrays = recording.per_row | {"next_states": following}
    usable = finite_rows(
        arrays,
        recording.names,
        rules.dropped,
        kept=kept,
        order=order,
        source=source,
        reward=recording.reward_name,
        advice=_ADVICE,
    )
    starts = start_rows(
        np.flatnonzero(kept)[usable], links.recorded & ~(ends | idle)[:-1], found.linked[:-1], gap_factor
    )
    given = None if recording.episodes is None else recording.episodes[kept]
    compacted = ("states", "actions", "rewards", "weights")
    parts: _Parts = {name: _compact(arrays[name], kept) for name in compacted if name in arrays}
    parts |= {"next_states": following, "terminated": found.terminated, "truncated": found.truncated}
    parts |= {} if recording.begins is None else {"begins": recording.begins[kept]}
    parts["episodes"] = _episode_numbers(recording.new_episodes_from + found.segments, given)
    return _Assembled(parts, usable, repaired.recording.repairs, starts, interval, repaired.hold)


def _on_clock(
    recording: Recording,
    order: Integers | None,
    settings: Settings,
    periods: tuple[float | None, ...],
) -> tuple[Recording, Integers | None, Links, float | None]:
    """Return the recording with one row per time, on a regular grid if that is declared."""
    method = settings.get("resample")
    if method is not None and recording.times is None:
        raise ArgumentError(f"the rows cannot be resampled by {method!r} without a time column; name it")
    if recording.times is not None:
        recording, order = merge_repeated(recording, order)
    # A regular grid bridges gaps that are short enough to hold values over them.
    longest = settings.get("gap_factor", None if method is None else GAP_FACTOR)
    clock = Clock.of(recording, settings.get("interval"), longest)
    said = clock.repairs(resampled=method is not None, source=str(recording.source))
    links = Links(recording.same_run, recording.same_run & ~clock.gaps)
    if method is not None and clock.interval is not None:
        recording, links = resample(recording, links, method=method, interval=clock.interval, periods=periods)
        order = None
    return replace(recording, repairs=recording.repairs + said), order, links, clock.interval


def _next_states(states: Floats, found: Shifted) -> Floats:
    """Return the next states, in chunks: the numbers of all their rows would be as large as a column."""
    following = np.empty((len(found.terminated), states.shape[1]))
    filled = 0
    for start in range(0, len(states), _CHUNK):
        rows = start + np.flatnonzero(found.kept[start : start + _CHUNK])
        following[filled : filled + len(rows)] = states[rows + found.linked[rows]]
        filled += len(rows)
    return following


def _compact(array: Floats, kept: Flags) -> Floats:
    """Return the kept rows, moved to the front of the array itself to save memory."""
    filled = 0
    for start in range(0, len(array), _CHUNK):
        chosen = array[start : start + _CHUNK][kept[start : start + _CHUNK]]
        array[filled : filled + len(chosen)] = chosen
        filled += len(chosen)
    return array[:filled]


def _episode_numbers(segments: Integers, given: Integers | None) -> Integers:
    """Return the logged episode numbers if every episode is one segment, else the segments'."""
    if given is None:
        return segments
    # A segment never spans two episodes, so equal counts mean that none was split.
    return given if len(np.unique(given)) == len(np.unique(segments)) else segments
