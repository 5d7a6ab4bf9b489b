"""Named columns to a recording, and a dataset to named columns."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.data._repairs import Repairs
from nopg.data._schema import name_columns
from nopg.data._transitions import Transitions
from nopg.data._validation import Source
from nopg.data.io._cells import CellFormat, episode_column, flag_column, number_column
from nopg.data.io._recording import Flags, Floats, Recording
from nopg.data.io._roles import Roles
from nopg.data.io._time_stamps import time_column
from nopg.errors import DataError

_log = logging.getLogger(__name__)

Table = dict[str, npt.NDArray[Any]]
# How often which word of a column was read as what: (column, what).
Counts = Counter[tuple[str, str]]
# Other parts may hold any number that a file gives; new numbers beside them begin here.
_BEYOND_GIVEN_NUMBERS = 1 << 62


def record(
    read: Callable[[str], npt.NDArray[Any]],
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
    columns = _Columns(read, source, roles.cells, Counter(counts or {}), part_start is None)
    terminated, truncated = columns.flags(roles.terminated), columns.flags(roles.truncated)
    if (done := columns.flags(roles.done)) is not None:
        terminated = done if truncated is None else done & ~truncated
    episodes, new_episodes_from = None, part_start or 0
    if roles.episode is not None:
        values = columns.column(roles.episode)
        episodes = episode_column(values, roles.episode, source)
        if values.dtype.kind not in "iubf":
            episodes += new_episodes_from  # names are numbered in order of appearance
        elif part_start is not None:
            new_episodes_from += _BEYOND_GIVEN_NUMBERS
    times, has_dates = None, False
    read_as: tuple[str, ...] = ()
    if roles.time is not None:
        times, has_dates, found = time_column(columns.column(roles.time), roles.time, source, roles.cells)
        read_as = tuple(f"{roles.time}: {note}" for note in found)
    states, actions = columns.matrix(roles.states), columns.matrix(roles.actions)
    widths = states.shape[1], actions.shape[1]
    recording = Recording(
        source=source,
        states=states,
        actions=actions,
        rewards=np.zeros(len(states)) if roles.reward is None else columns.numbers(roles.reward),
        names=name_columns(roles.state_names, roles.action_names, widths, source.prefix),
        next_states=None if roles.next_states is None else columns.matrix(roles.next_states),
        terminated=terminated,
        truncated=truncated,
        episodes=episodes,
        times=times,
        weights=None if roles.weight is None else columns.numbers(roles.weight),
        begins=columns.flags(roles.begins),
        file_starts=file_starts,
        new_episodes_from=new_episodes_from,
        formula=roles.formula,
        time_name=roles.time,
        has_dates=has_dates,
        reward_name=roles.reward or "reward",
    )
    repairs = columns.repairs(read_as)
    for line in str(repairs).splitlines():
        _log.info("%s: %s", source, line)
    return replace(recording, repairs=Repairs(notes=notes) + repairs)


def take_from(table: Table, roles: Roles) -> Callable[[str], npt.NDArray[Any]]:
    """Return a `read` that removes columns of numbers from a table, to save memory."""
    return lambda name: table[name] if name in roles.others else table.pop(name)


def named_columns(data: Transitions) -> Table:
    """Return every column of a dataset under the name it has in a table."""
    states, actions = data.schema.states, data.schema.actions
    names = [*states, *actions, "reward", *(f"next_{name}" for name in states), "terminated", "truncated"]
    values = [*data.states.T, *data.actions.T, data.rewards, *data.next_states.T]
    values += [data.terminated, data.truncated]
    if data.episodes is not None:
        names, values = [*names, "episode"], [*values, data.episodes]
    if data.weights is not None:
        names, values = [*names, "weight"], [*values, data.weights]
    if data.begins is not None:
        names, values = [*names, "begins"], [*values, data.begins]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"a table would hold {repeated} twice; give the state and action columns other names")
    return {name: value.numpy() for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns by name, converted to the type that a role needs."""

    read: Callable[[str], npt.NDArray[Any]]
    source: Source
    cells: CellFormat
    counts: Counts
    whole: bool

    def repairs(self, notes: tuple[str, ...]) -> Repairs:
        """Return the counts by column, and the notes."""
        return Repairs({f"{name}: {what}": n for (name, what), n in self.counts.items() if n}, notes)

    def converted(self, values: npt.NDArray[Any], name: str) -> Floats:
        """Return numbers, after every missing one is counted."""
        numbers, words = number_column(values, name, self.source, self.cells)
        for what, count in words.items():
            self.counts[name, what] += count
        known = sum(n for (one, what), n in self.counts.items() if one == name and what[:7] == "missing")
        missing = int(np.isnan(numbers).sum())
        self.counts[name, "empty"] = missing - known
        if missing == len(numbers) > 0 and self.whole:
            found = ", ".join(f"{n} × {what}" for (one, what), n in self.counts.items() if one == name and n)
            raise DataError(f"{self.source}: column {name!r} holds no number at all ({found}); leave it out")
        return numbers

    def column(self, name: str) -> npt.NDArray[Any]:
        values = self.read(name)
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values

    def flags(self, name: str | None) -> Flags | None:
        return None if name is None else flag_column(self.column(name), name, self.source)

    def numbers(self, name: str) -> Floats:
        # A copy: the table may change later.
        return np.array(self.converted(self.column(name), name))

    def matrix(self, names: tuple[str, ...]) -> Floats:
        """Return columns side by side, or the matrix that a single key holds."""
        block = np.empty((0, len(names)))
        for k, name in enumerate(names):
            values = self.column(name)
            if len(names) == 1 and values.ndim == 2 and values.shape[1] > 0 and values.dtype.kind in "fiub":
                return np.ascontiguousarray(values, dtype=np.float64)
            values = self.converted(values, name)
            if k == 0:
                block = np.empty((len(values), len(names)))
            if len(values) != len(block):
                counts = f"{names[0]!r} has {len(block)} rows, {name!r} {len(values)}"
                raise DataError(f"{self.source}: {counts}; give equal ones")
            block[:, k] = values
        return block
