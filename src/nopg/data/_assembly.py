"""From logged rows to transitions: the one way in for every file and table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import torch

from nopg.data._columns import Settings
from nopg.data._recording import Flags, Floats, Recording, Rows
from nopg.data._schema import Schema, resolve_angles
from nopg.data._shifting import Shifted, shift
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["transitions_of"]

_log = logging.getLogger(__name__)
_GAP_FACTOR = 5.0
_ROWS_SHOWN = 5
_CHUNK = 1 << 16
_Parts = dict[str, npt.NDArray[Any]]


def transitions_of(recording: Recording, **settings: Unpack[Settings]) -> Transitions:
    """Return the transitions of a recording, with shifted next states where none were logged.

    The arrays of the recording become those of the dataset; nobody else may hold them.
    """
    from nopg.data._transitions import Transitions, check_invalid

    check_invalid(invalid := settings.get("invalid", "raise"))
    schema = Schema(
        *recording.names,
        resolve_angles(settings.get("angles"), recording.names[0]),
        dict(settings.get("units") or {}),
        dict(settings.get("bounds") or {}),
    )
    assemble = _shifted if recording.next_states is None else _logged
    parts = assemble(recording, settings.get("gap_factor", _GAP_FACTOR), invalid == "drop")
    data = Transitions(schema=schema, **{name: torch.from_numpy(part) for name, part in parts.items()})
    starts = settings.get("initial_states")
    return data if starts is None else data.starting_at(starts)


def _logged(recording: Recording, gap_factor: float, drop: bool) -> _Parts:
    """Return the parts of a dataset whose next states were logged."""
    terminated, truncated = recording.flags
    episodes = recording.episodes
    if recording.seconds is not None:
        order, grouped = recording.grouped()
        connected = grouped.connected(gap_factor)
        back = slice(None) if order is None else np.argsort(order)
        jumped = np.append(grouped.same_episode & ~connected, False)
        truncated = truncated | jumped[back]
        stretches = np.cumsum(np.insert(~connected, 0, False), dtype=np.int64)
        episodes = _keep_numbers(recording.invented_from + stretches[back], episodes)

    assert recording.next_states is not None
    usable = _usable(recording, np.full(len(terminated), True), recording.next_states, None, drop)
    parts: _Parts = {
        "states": recording.states,
        "actions": recording.actions,
        "rewards": recording.rewards,
        "next_states": recording.next_states,
        "terminated": terminated,
        "truncated": truncated & ~terminated,
    }
    if episodes is not None:
        parts["episodes"] = episodes
    if recording.weights is not None:
        parts["weights"] = recording.weights
    return parts if bool(usable.all()) else {name: part[usable] for name, part in parts.items()}


def _shifted(recording: Recording, gap_factor: float, drop: bool) -> _Parts:
    """Return the parts of a dataset whose next states stand in the next rows."""
    order, recording = recording.grouped()
    connected = recording.connected(gap_factor)
    idle = np.asarray(np.isnan(recording.actions).all(axis=1))
    if drop:
        known = np.isfinite(recording.states).all(axis=1)
        known &= idle | (np.isfinite(recording.actions).all(axis=1) & np.isfinite(recording.rewards))
        connected = connected & known[1:] & known[:-1]
    found = shift(connected, *recording.flags, idle=idle, whole_episodes=recording.episodes is not None)

    states, kept = recording.states, found.kept
    if not bool(kept.any()):
        raise DataError(
            f"{recording.source}: no row has a next state: {len(states)} rows stand alone. Name the columns "
            "that hold it with next_states=…, or the rows that belong together with episode=…"
        )
    if unused := int((~kept).sum()):
        _log.info(
            "%s: %d of %d rows are no transitions: they hold final states, or stand alone",
            recording.source,
            unused,
            len(states),
        )
    following = _following(states, found)
    usable = _usable(recording, kept, following, order, drop)
    parts: _Parts = {
        "states": _compacted(states, kept),
        "actions": _compacted(recording.actions, kept),
        "rewards": _compacted(recording.rewards, kept),
        "next_states": following,
        "terminated": found.terminated,
        "truncated": found.truncated,
        "episodes": _keep_numbers(
            recording.invented_from + found.segments,
            None if recording.episodes is None else recording.episodes[kept],
        ),
    }
    if recording.weights is not None:
        parts["weights"] = _compacted(recording.weights, kept)
    return parts if bool(usable.all()) else {name: part[usable] for name, part in parts.items()}


def _following(states: Floats, found: Shifted) -> Floats:
    """Return the next states, piece by piece: a list of all their rows would be as large as a column."""
    following = np.empty((len(found.terminated), states.shape[1]))
    filled = 0
    for start in range(0, len(states), _CHUNK):
        rows = start + np.flatnonzero(found.kept[start : start + _CHUNK])
        following[filled : filled + len(rows)] = states[rows + found.linked[rows]]
        filled += len(rows)
    return following


def _compacted(array: Floats, kept: Flags) -> Floats:
    """Return the kept rows, moved to the front of the array itself: the recording is used up."""
    filled = 0
    for start in range(0, len(array), _CHUNK):
        chosen = array[start : start + _CHUNK][kept[start : start + _CHUNK]]
        array[filled : filled + len(chosen)] = chosen
        filled += len(chosen)
    return array[:filled]


def _usable(recording: Recording, kept: Flags, next_states: Floats, order: Rows | None, drop: bool) -> Flags:
    """Return which of the kept rows hold finite numbers only; refuse the others unless `drop`."""
    usable = np.full(len(next_states), True)
    findings = []
    for label, column in _columns(recording, next_states):
        faulty = ~np.isfinite(column)
        faulty = faulty if label.startswith("the next") else faulty[kept]
        if bool(faulty.any()):
            usable &= ~faulty
            rows = np.flatnonzero(kept)[faulty]
            findings.append(f"{label} has {_places(rows if order is None else order[rows])}")

    if findings and not drop:
        raise DataError(
            f"{recording.source}: {'; '.join(findings)}; repair them, or leave them out with invalid='drop'"
        )
    if not bool(usable.any()):
        raise DataError(f"{recording.source}: every row is faulty, nothing is left; {'; '.join(findings)}")
    return usable


def _columns(recording: Recording, next_states: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield what every column holds: the next states in the kept rows, the others in all."""
    for k, name in enumerate(recording.names[0]):
        yield f"state column {name!r}", recording.states[:, k]
    for k, name in enumerate(recording.names[1]):
        yield f"action column {name!r}", recording.actions[:, k]
    yield "the reward", recording.rewards
    for k, name in enumerate(recording.names[0]):
        yield f"the next state of {name!r}", next_states[:, k]
    if recording.weights is not None:
        yield "the weight", recording.weights


def _keep_numbers(segments: Rows, given: Rows | None) -> Rows:
    """Return the user's episode numbers if every episode is one segment, else the segments'."""
    if given is None:
        return segments
    # A segment never spans two episodes, so equal counts mean that none was split.
    return given if len(np.unique(given)) == len(np.unique(segments)) else segments


def _places(rows: Rows) -> str:
    shown = ", ".join(map(str, np.sort(rows)[:_ROWS_SHOWN]))
    dots = ", …" if len(rows) > _ROWS_SHOWN else ""
    return f"{len(rows)} missing or infinite value{'s' if len(rows) > 1 else ''} (rows {shown}{dots})"
