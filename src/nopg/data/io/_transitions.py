"""A recording to transitions, with next states from the next row where none were logged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch

from nopg.data._levels import as_levels, check_levels
from nopg.data._schema import Schema, resolve_angles
from nopg.data._transitions import Transitions
from nopg.data._validation import Invalid, finite_rows
from nopg.data.io._recording import Flags, Floats, Integers, Recording
from nopg.data.io._roles import Settings
from nopg.errors import DataError

__all__ = ["Shifted", "shift", "to_transitions"]

_log = logging.getLogger(__name__)
_GAP_FACTOR = 5.0
_CHUNK = 1 << 16
_Parts = dict[str, npt.NDArray[Any]]


def to_transitions(recording: Recording, **settings: Unpack[Settings]) -> Transitions:
    """Return the transitions of a recording.

    The arrays of the recording become those of the dataset; the caller must not use them afterwards.
    """
    schema = Schema(
        *recording.names,
        resolve_angles(settings.get("angles"), recording.names[0]),
        dict(settings.get("units") or {}),
        dict(settings.get("bounds") or {}),
        derived=dict(settings.get("derived") or {}),
        exogenous=dict(settings.get("exogenous") or {}),
        interval=settings.get("interval"),
        hold=dict(settings.get("hold") or {}),
        levels=as_levels(settings.get("levels")),
    )
    assemble = _shifted if recording.next_states is None else _logged
    invalid = settings.get("invalid", "raise")
    parts, usable = assemble(recording, settings.get("gap_factor", _GAP_FACTOR), invalid)
    if not bool(usable.all()):
        parts = {name: part[usable] for name, part in parts.items()}
    data = Transitions(schema=schema, **{name: torch.from_numpy(part) for name, part in parts.items()})
    check_levels(data.actions, schema.actions, schema.levels)
    starts = settings.get("initial_states")
    data = data if starts is None else data.starting_at(starts)
    return data if recording.formula is None else data.with_reward(recording.formula)


@dataclass(frozen=True, slots=True)
class Shifted:
    """The transitions of n rows whose next states are the states of next rows.

    Attributes:
        kept: True for the m rows that are transitions, shape (n,).
        linked: True for those whose next state is the state of the next row, shape (n,); the others ended in
            a terminal state that was not recorded.
        terminated: True at terminal transitions, shape (m,).
        truncated: True where the recording ended, shape (m,).
        segments: Number of the unbroken segment of the recording of each transition, from 0, shape (m,).
    """

    kept: Flags
    linked: Flags
    terminated: Flags
    truncated: Flags
    segments: Integers


def shift(
    connected: Flags, terminated: Flags, truncated: Flags, *, idle: Flags, whole_episodes: bool
) -> Shifted:
    """Find the transitions of n rows of a recording.

    A row is a transition if the next row continues its recording: that row's state is its next state. A
    terminated row is one even if no row follows, because nothing depends on its next state. Any other last
    row holds only the state in which the recording ended, and the row before it is truncated.

    `connected` (n−1,) is True where row i+1 was recorded right after row i. An `idle` row has no action: it
    can only be the final state of an episode. With `whole_episodes`, `connected` respects the logged
    episodes; then a single row after an end is its final state.

    Example:
        Three steps, the last one terminal; and three rows without an end, which are two steps:

        >>> ends = np.array([False, False, True, False, False, False])
        >>> found = shift(np.full(5, True), ends, np.zeros(6, bool), idle=np.zeros(6, bool),
        ...               whole_episodes=False)
        >>> np.flatnonzero(found.kept).tolist(), np.flatnonzero(found.linked).tolist()
        ([0, 1, 2, 3, 4], [0, 1, 3, 4])
        >>> found.truncated.tolist(), found.segments.tolist()
        ([False, False, False, False, True], [0, 0, 0, 1, 1])
    """
    follows = np.append(connected, False)  # row i+1 continues row i
    preceded = np.insert(connected, 0, False)

    def at_the_step(flags: Flags) -> Flags:
        # An end on a row without an action belongs to the step before it.
        return np.asarray((flags & ~idle) | np.append((flags & idle & preceded)[1:], False))

    terminated, truncated = at_the_step(terminated), at_the_step(truncated)
    truncated = truncated & ~terminated

    # The row after an end is its final state if it is nothing else; otherwise an episode starts there.
    ends = terminated | truncated
    alone = idle | (~follows & ~ends & whole_episodes)
    final = preceded & np.insert(ends[:-1], 0, False) & alone
    linked = follows & ~final & (~ends | np.append(final[1:], False))

    kept = linked | (terminated & ~final)
    last = ~np.append(kept[1:], False) | ~linked
    segments = np.cumsum(np.insert(~linked[:-1], 0, False)[kept], dtype=np.int64)
    segments -= segments[:1]
    return Shifted(kept, linked, terminated[kept], (last & ~terminated)[kept], segments)


def _logged(recording: Recording, gap_factor: float, invalid: Invalid) -> tuple[_Parts, Flags]:
    """Return the parts of a dataset whose next states were logged, and which rows are usable."""
    terminated, truncated = recording.flags
    parts = {name: part for name, part in recording.per_row.items() if name != "times"}
    if recording.times is not None:
        order, grouped = recording.group_by_episode()
        connected = grouped.connected(gap_factor)
        back = slice(None) if order is None else np.argsort(order)
        truncated = truncated | np.append(grouped.same_episode & ~connected, False)[back]
        segments = np.cumsum(np.insert(~connected, 0, False), dtype=np.int64)[back]
        parts["episodes"] = _episode_numbers(recording.new_episodes_from + segments, recording.episodes)
    parts |= {"terminated": terminated, "truncated": truncated & ~terminated}
    return parts, finite_rows(parts, recording.names, invalid, source=f"{recording.source}: ")


def _shifted(recording: Recording, gap_factor: float, invalid: Invalid) -> tuple[_Parts, Flags]:
    """Return the parts of a dataset whose next states are in the next rows, and which rows are usable."""
    order, recording = recording.group_by_episode()
    source, states = recording.source, recording.states
    connected = recording.connected(gap_factor)
    idle = np.asarray(np.isnan(recording.actions).all(axis=1))
    if invalid == "drop":
        known = np.isfinite(states).all(axis=1)
        known &= idle | (np.isfinite(recording.actions).all(axis=1) & np.isfinite(recording.rewards))
        connected = connected & known[1:] & known[:-1]
    found = shift(connected, *recording.flags, idle=idle, whole_episodes=recording.episodes is not None)
    kept = found.kept
    if not bool(kept.any()):
        raise DataError(
            f"{source}: no row has a next state: {len(states)} rows are unconnected. Name the columns of the "
            "next state with next_states=…, or the column of the episode with episode=…"
        )
    if unused := int((~kept).sum()):
        _log.info("%s: %d of %d rows have no next row and are no transitions", source, unused, len(states))
    following = _next_states(states, found)
    arrays = recording.per_row | {"next_states": following}
    usable = finite_rows(arrays, recording.names, invalid, kept=kept, order=order, source=f"{source}: ")
    given = None if recording.episodes is None else recording.episodes[kept]
    compacted = ("states", "actions", "rewards", "weights")
    parts: _Parts = {name: _compact(arrays[name], kept) for name in compacted if name in arrays}
    parts |= {"next_states": following, "terminated": found.terminated, "truncated": found.truncated}
    parts["episodes"] = _episode_numbers(recording.new_episodes_from + found.segments, given)
    return parts, usable


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
