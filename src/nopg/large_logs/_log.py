"""A log in Parquet files that is read part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch

from nopg.data import Transitions
from nopg.data.io._files import Paths, extra, find_files
from nopg.data.io._parquet import read_parquet, read_parquet_by
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._tables import completed
from nopg.errors import DataError

_SUFFIXES = (".parquet", ".pq")
# About how many rows are read at once.
_PART_ROWS = 1 << 17
# Parts of which a sample has rows.
_RUNS = 128


@dataclass(frozen=True, slots=True)
class LogPart:
    """Consecutive rows of one file: its path, the number of the part from 0, the number of its parts."""

    file: str
    number: int
    count: int


@dataclass(frozen=True, eq=False)
class LargeLog:
    """Parquet files of one plant, or of several of a kind that a column names, read part by part."""

    files: tuple[str, ...]
    columns: Mapping[str, Any]
    has_episodes: bool
    plant: str | None = None

    @classmethod
    def of(cls, path: Paths, *, plant: str | None = None, **columns: Unpack[Columns]) -> LargeLog:
        """Return the log of a file, a folder, a glob or several of them."""
        files = tuple(str(file) for file in find_files(path, _SUFFIXES))
        schema = extra("pyarrow.parquet").read_schema(files[0])
        given, _ = split_arguments(completed(columns, schema.metadata, files[0]), Columns)
        roles = resolve_columns(schema.names, files[0], **given)
        if plant is not None and plant not in schema.names:
            raise DataError(
                f"{files[0]}: there is no column {plant!r} of plants; there are {', '.join(schema.names)}"
            )
        return cls(files, columns, "episode" in roles.single, plant)

    @cached_property
    def _sizes(self) -> tuple[tuple[int, int], ...]:
        """Number of rows and of row groups of each file."""
        found = map(extra("pyarrow.parquet").read_metadata, self.files)
        return tuple((one.num_rows, one.num_row_groups) for one in found)

    @property
    def num_rows(self) -> int:
        """Number of rows of all files."""
        return sum(rows for rows, _ in self._sizes)

    @cached_property
    def parts(self) -> tuple[LogPart, ...]:
        """All parts, file by file; none is smaller than a row group, which is always read as a whole."""
        found = list[LogPart]()
        for file, (rows, groups) in zip(self.files, self._sizes, strict=True):
            count = min(math.ceil(rows / _PART_ROWS), groups)
            found += [LogPart(file, number, count) for number in range(count)]
        if not found:
            raise DataError(f"{self.files[0]}: there are no rows; give at least one transition")
        return tuple(found)

    def read(self, part: LogPart) -> dict[str, Transitions]:
        """Return the rows of a part by plant; those of a log of one plant under an empty name."""
        share = (part.number, part.count)
        if self.plant is None:
            return {"": read_parquet(part.file, part=share, **self.columns)}
        return read_parquet_by(part.file, self.plant, part=share, **self.columns)

    def groups(self, data: Transitions, count: int) -> torch.Tensor:
        """Return one of `count` groups for each row: episodes that a column tells, else single rows."""
        known = self.plant is None or self.has_episodes
        return hashed_groups(data if known else replace(data, episodes=None), count)

    def sample(self, rows: int) -> list[Transitions]:
        """Return about this many rows in runs that follow each other, from all over the log."""
        parts, runs = self.parts, list[Transitions]()
        chosen = [parts[len(parts) * k // _RUNS] for k in range(_RUNS)] if len(parts) > _RUNS else parts
        for part in chosen:
            found = self.read(part).values()
            runs += [_run(one, math.ceil(rows / (len(chosen) * len(found)))) for one in found]
        return runs

    def starts(self, data: Transitions, part: LogPart) -> torch.Tensor:
        """Return the states (m, d_s) of a part in which the task begins: the first of episodes, else all."""
        if data.initial_states is not None:
            return data.initial_states
        if data.episodes is None or not self.has_episodes:
            return data.states if data.begins is None else data.states[data.begins]
        begins = torch.ones(len(data), dtype=torch.bool)
        begins[1:] = data.episodes[1:] != data.episodes[:-1]
        begins = begins if data.begins is None else data.begins.clone()
        begins[0] &= part.number == 0  # any other part may begin within an episode
        return data.states[begins]


def _run(data: Transitions, rows: int) -> Transitions:
    """Return rows that follow each other, at a place that depends on their values alone."""
    room = len(data) - rows
    begin = int(row_hashes(data.states[:1])) % (room + 1) if room > 0 else 0
    return data.take(torch.arange(begin, min(begin + rows, len(data))))


def joined(runs: Sequence[Transitions]) -> Transitions:
    """Return the rows of all runs without their starts; an episode of one is no episode of another."""
    parts, owners = [run.rows for run in runs], 0
    for part in parts:
        part.pop("begins", None)
        if "episodes" in part:
            _, own = torch.unique(part["episodes"], return_inverse=True)
            part["episodes"] = own + owners
            owners += int(own.max()) + 1
    columns: dict[str, Any] = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return replace(runs[0], **columns, initial_states=None, begins=None)


def row_hashes(values: torch.Tensor) -> torch.Tensor:
    """Return 62 bits for every row of values (n, c), evenly spread; equal rows have equal ones.

    Example:
        >>> same, other, again = row_hashes(torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
        >>> bool(same == again), bool(same == other)
        (True, False)
    """
    bits = (values.double().numpy() + 0.0).view(np.uint64)  # 0 and −0 are equal
    found = np.zeros(len(bits), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:  # the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)
            found = (found ^ column) + np.uint64(0x9E3779B97F4A7C15)
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(31)
    return torch.as_tensor((found >> np.uint64(2)).astype(np.int64))


def hashed_groups(data: Transitions, count: int) -> torch.Tensor:
    """Return one of `count` groups for each row: whole episodes, or single rows where there are none."""
    owners = data.states if data.episodes is None else data.episodes[:, None]
    return row_hashes(owners) % count
