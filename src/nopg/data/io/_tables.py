"""Named columns of a table to a recording, and a dataset to named columns."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data._checks import Source, columns_of
from nopg.data._repairs import Repairs
from nopg.data._schema import name_columns
from nopg.data._transitions import Transitions
from nopg.data.io._cells import Array, CellFormat, episode_column, flag_column, number_column
from nopg.data.io._recording import Recording
from nopg.data.io._roles import Roles
from nopg.data.io._time_stamps import time_column
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

Table = dict[str, Array]
# How often which word of a column was read as what: (column, what).
Counts = Counter[tuple[str, str]]
# Other parts may hold any number that a file gives; new numbers beside them begin here.
_BEYOND_GIVEN_NUMBERS = 1 << 62


def named_columns(data: Transitions) -> Table:
    """Return every column of a dataset under the name it has in a table."""
    walk = columns_of(data.rows, (data.schema.states, data.schema.actions))
    columns = [(f"next_{name}" if role == "next_states" else name, values) for role, name, values in walk]
    others = {"episodes": "episode"}
    flags = ("terminated", "truncated", "episodes", "begins")
    columns += [(others.get(name, name), part) for name, part in data.rows.items() if name in flags]
    names = Counter(name for name, _ in columns)
    if repeated := sorted(name for name, number in names.items() if number > 1):
        raise DataError(f"a table would hold {repeated} twice; give the state and action columns other names")
    return {name: values.numpy() for name, values in columns}


def record(
    read: Callable[[str], Array],
    roles: Roles,
    source: Source,
    *,
    file_starts: tuple[int, ...] = (),
    part_start: int | None = None,
    counts: Counts | None = None,
    notes: tuple[str, ...] = (),
) -> Recording:
    """Return the recording that columns of known roles hold.

    `read` returns a column by name; columns of numbers are read after all others. `file_starts` are rows at
    which another file starts; `part_start` is the first row of a part among all rows, None for the whole.
    `counts` are words that were read already, `notes` what else was found and logged.
    """
    counts = Counter(counts or {})
    flags = {
        role: flag_column(read(name), name, source)
        for role in ("terminated", "truncated", "done", "begins")
        if (name := getattr(roles, role)) is not None
    }
    rows: dict[str, Array] = {}
    new_episodes_from = part_start or 0
    if roles.episode is not None:
        values = read(roles.episode)
        rows["episodes"] = episode_column(values, roles.episode, source)
        if values.dtype.kind not in "iubf":
            rows["episodes"] += new_episodes_from  # names are numbered in order of appearance
        elif part_start is not None:
            new_episodes_from += _BEYOND_GIVEN_NUMBERS
    has_dates, found = False, Repairs(notes=notes)
    if roles.time is not None:
        rows["times"], has_dates, said = time_column(read(roles.time), roles.time, source, roles.cells)
        found += Repairs(notes=tuple(f"{roles.time}: {note}" for note in said))

    def numbers(name: str) -> Array:
        return _counted(read(name), name, source, roles.cells, counts, whole=part_start is None)

    def matrix(names: tuple[str, ...]) -> Array:
        block = np.empty((0, len(names)))
        for k, name in enumerate(names):
            values = numbers(name)
            block = np.empty((len(values), len(names))) if k == 0 else block
            block[:, k] = values
        return block

    rows |= {"states": matrix(roles.states), "actions": matrix(roles.actions)}
    count = len(rows["states"])
    rows["rewards"] = np.zeros(count) if roles.reward is None else np.array(numbers(roles.reward))
    if roles.next_states is not None:
        rows["next_states"] = matrix(roles.next_states)
    if roles.weight is not None:
        rows["weights"] = np.array(numbers(roles.weight))
    none, cut = np.zeros(count, dtype=np.bool_), flags.get("truncated")
    ends = flags.get("terminated", none)
    if "done" in flags:
        ends = flags["done"] if cut is None else flags["done"] & ~cut
    rows |= {"terminated": ends, "truncated": none if cut is None else cut}
    rows |= {name: part for name, part in flags.items() if name == "begins"}
    words = Repairs({f"{name}: {what}": number for (name, what), number in counts.items() if number})
    for line in str(words + Repairs(notes=found.notes[len(notes) :])).splitlines():
        _log.info("%s: %s", source, line)
    return Recording(
        source,
        name_columns(roles.state_names, roles.action_names, (len(roles.states), len(roles.actions))),
        rows,
        file_starts=file_starts,
        new_episodes_from=new_episodes_from,
        formula=roles.formula,
        time_name=roles.time,
        has_dates=has_dates,
        reward_name=roles.reward or "reward",
        repairs=found + words,
    )


def _counted(
    values: Array, name: str, source: Source, cells: CellFormat, counts: Counts, *, whole: bool
) -> Array:
    """Return numbers, after every missing one is counted."""
    numbers, words = number_column(values, name, source, cells)
    counts.update({(name, what): number for what, number in words.items()})
    own = {what: number for (one, what), number in counts.items() if one == name and number}
    missing = int(np.isnan(numbers).sum())
    empty = missing - sum(number for what, number in own.items() if what.startswith("missing"))
    if empty:
        counts[name, "empty"] = own["empty"] = empty
    if missing == len(numbers) > 0 and whole:
        found = ", ".join(f"{number} × {what}" for what, number in own.items())
        raise DataError(f"{source}: column {name!r} holds no number at all ({found}); leave it out")
    return numbers


def take_from(table: Table, roles: Roles) -> Callable[[str], Array]:
    """Return a `read` that removes columns of numbers from a table, to save memory."""
    return lambda name: table[name] if name in roles.others else table.pop(name)


def plain_values(column: pd.Series[Any]) -> Array:
    """Return a column as plain numpy, dates in UTC, missing values as NaN, NaT or None."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M" and getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if kind in "iufb" and column.hasnans:  # pandas' own integer types have missing values
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy())
