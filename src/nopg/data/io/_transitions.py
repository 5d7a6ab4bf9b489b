"""A recording to transitions: clock, repairs, next states, episodes and starts."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Unpack

import numpy as np
import torch

from nopg._columns import GAP_FACTOR
from nopg._typing import BoolArray, IntArray
from nopg.data._checks import as_levels, finite_rows, flagged_episodes
from nopg.data._repairs import LEFT_OUT, Repairs
from nopg.data._schema import Schema, exogenous_kinds, resolve_angles
from nopg.data._transitions import Transitions, assemble
from nopg.data.io._clock import in_seconds, on_clock
from nopg.data.io._missing import Rules, repair_missing
from nopg.data.io._recording import Recording, Shifted, shift, start_rows
from nopg.data.io._roles import Settings
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)
_TAKEN_OVER = "one long recording: the task may start in any row, unless starts='episodes' says otherwise"


def to_transitions(recording: Recording, **settings: Unpack[Settings]) -> Transitions:
    """Return the transitions of a recording."""
    if settings.get("starts") not in (None, "episodes", "rows"):
        raise ArgumentError(f"starts is {settings['starts']!r}; give 'episodes' or 'rows'")
    if settings.get("starts") is not None and settings.get("initial_states") is not None:
        raise ArgumentError("starts and initial_states are given; give one of them")
    log, units = in_seconds(recording, settings.get("units") or {})
    angles = resolve_angles(settings.get("angles"), log.names[0])
    periods = tuple(angles.get(name) for name in log.names[0])
    in_sequence, gap_factor = "next_states" not in log.rows, settings.get("gap_factor", GAP_FACTOR)
    log, recorded, connected, interval = on_clock(log, settings, periods)
    rules, ends, hold = Rules.of(settings.get("missing"), log), log.ends, dict[str, int]()
    idle = np.zeros(len(ends), dtype=np.bool_)
    if in_sequence:
        runs = connected & ~ends[:-1]
        log, arrives, departs, hold = repair_missing(log, rules, runs, gap_factor=gap_factor, periods=periods)
        connected = connected & arrives[1:] & departs[:-1]
        idle = np.isnan(log.rows["actions"]).all(axis=1)
        flags = log.rows["terminated"], log.rows["truncated"]
        found = shift(connected, *flags, idle=idle, whole_episodes="episodes" in log.rows)
        _check_any(found.kept, log)
        following = np.flatnonzero(found.kept)
        following += found.linked[following]
    else:
        found = _logged(log, recorded, connected)
    parts = {name: part for name, part in log.rows.items() if name not in ("times", "number", "episodes")}
    if in_sequence:
        parts["next_states"] = log.rows["states"][following]
    usable = finite_rows(
        parts,
        log.names,
        rules.dropped,
        kept=found.kept,
        order=log.rows.get("number"),
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
    kept = {name: part[found.kept] for name, part in parts.items() if name != "next_states"}
    kept |= {
        "terminated": found.terminated,
        "truncated": found.truncated,
        "next_states": parts["next_states"],
    }
    if (numbers := _episodes(log, found, in_sequence=in_sequence)) is not None:
        kept["episodes"] = numbers
    derived = dict(settings.get("derived") or {})
    schema = Schema(
        *log.names,
        angles,
        units,
        dict(settings.get("bounds") or {}),
        derived=derived,
        exogenous=exogenous_kinds(settings.get("exogenous")),
        interval=interval,
        hold={**(settings.get("hold") or {}), **{name: n for name, n in hold.items() if name not in derived}},
        levels=as_levels(settings.get("levels")),
    )
    data = _with_starts(assemble(kept, schema, usable, repairs=log.repairs), starts, settings, log)
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


def _check_any(kept: BoolArray, log: Recording) -> None:
    if not bool(kept.any()):
        count = f"{len(kept)} rows are" if len(kept) > 1 else "the only row is"
        raise DataError(
            f"{log.source}: no row has a next state: {count} unconnected. Name the columns of the next "
            "states, or the column of the episode"
        )
    if unused := int((~kept).sum()):
        _log.info("%s: %d of %d rows have no next row and are no transitions", log.source, unused, len(kept))


def _episodes(log: Recording, found: Shifted, *, in_sequence: bool) -> IntArray | None:
    """Return the logged episode numbers if every episode is one segment, else numbers of segments."""
    given = log.rows["episodes"][found.kept] if "episodes" in log.rows else None
    if in_sequence or "times" in log.rows:
        # A segment never spans two episodes, so equal counts mean that none was split.
        whole = given is not None and len(np.unique(given)) == len(np.unique(found.segments))
        return given if whole else log.new_episodes_from + found.segments
    if given is not None:
        return given
    numbers = flagged_episodes(log.rows["states"], log.rows["next_states"], log.ends, log.same_run)
    return None if numbers is None else log.new_episodes_from + numbers


def _with_starts(
    data: Transitions, starts: IntArray | None, settings: Settings, log: Recording
) -> Transitions:
    """Return the dataset with the declared starts, else with those that were found.

    The single beginning of a log without episodes is an accident of the export: a controller may take over in
    any row.

    Args:
        data: The dataset, with the marks of a column if there is one.
        starts: Rows that start the task; None for the first of every episode.
        settings: Of the reader.
        log: The rows as they were logged.
    """
    if (declared := settings.get("initial_states")) is not None:
        return data.starting_at(declared)
    choice, rows = settings.get("starts"), np.arange(len(data))
    if data.begins is not None and choice is None:
        return data
    data = replace(data, begins=None)
    single = data.start_kind == "rows" and data.episodes is not None
    unnamed = "episodes" not in log.rows and not bool(data.terminated[-1])
    cut = unnamed and starts is not None and len(starts) == 1
    marks: BoolArray | None = None
    if choice == "episodes" and single:
        marks = rows == 0
    elif choice == "rows" or (choice is None and cut):
        marks = rows >= 0
    elif starts is not None:
        marks = np.isin(rows, starts)
    data = data if marks is None else replace(data, begins=torch.from_numpy(marks))
    if choice is None and unnamed and (cut or single) and "times" in log.rows:
        _log.info("%s", _TAKEN_OVER)
        data = replace(data, repairs=data.repairs + Repairs(notes=(_TAKEN_OVER,)))
    return data
