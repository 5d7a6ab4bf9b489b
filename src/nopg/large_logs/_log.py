"""A log in Parquet files that is read part by part, and what one pass over it keeps: sums."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch

from nopg.data import Repairs, Transitions
from nopg.data.io._files import Paths, extra, find_files
from nopg.data.io._parquet import read_parquet, read_parquet_by
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._tables import completed
from nopg.errors import DataError
from nopg.models._log_summary import ColumnCounts, OwnRows, Statistics
from nopg.models._one_step import OneStep
from nopg.models._regression_rows import RowBatch

_SUFFIXES = (".parquet", ".pq")
# About how many rows are read at once.
_PART_ROWS = 1 << 17
# Parts of which a sample has rows.
_RUNS = 128
# Starts that are kept, and rows of a plant by which its predictions are compared.
_MOST_KEPT = 1_000


class LogPart(NamedTuple):
    """Consecutive rows of one file: its path, the number of the part from 0 and that of its parts."""

    file: str
    share: tuple[int, int]


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
            found += [LogPart(file, (number, count)) for number in range(count)]
        if not found:
            raise DataError(f"{self.files[0]}: there are no rows; give at least one transition")
        return tuple(found)

    def read(self, part: LogPart) -> dict[str, Transitions]:
        """Return the rows of a part by plant; those of a log of one plant under an empty name."""
        if self.plant is None:
            return {"": read_parquet(part.file, part=part.share, **self.columns)}
        return read_parquet_by(part.file, self.plant, part=part.share, **self.columns)

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
        begins[0] &= part.share[0] == 0  # any other part may begin within an episode
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
    """Return 62 bits for every row of values (n, c), evenly spread; equal rows have equal ones."""
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


@dataclass(frozen=True, slots=True, eq=False)
class PlantSums:
    """Sums over rows of one plant, and samples: those with the smallest hashes, the same in any order."""

    statistics: Statistics  # Sums of the charts
    starts: torch.Tensor  # A sample of the states in which the task begins, shape (m, d_s)
    # A sample of the rows: inputs, targets, group and end of the task of each, shape (m, d + t + 2); none
    # of a log of one plant
    rows: torch.Tensor
    columns: ColumnCounts  # How the values of columns lie
    repairs: Repairs = field(default_factory=Repairs)

    def __add__(self, other: PlantSums) -> PlantSums:
        return PlantSums(
            self.statistics + other.statistics,
            _sampled(torch.cat([self.starts, other.starts])),
            _sampled(torch.cat([self.rows, other.rows])),
            self.columns + other.columns,
            self.repairs + other.repairs,
        )

    def own_rows(self, num_inputs: int) -> OwnRows:
        """Return the sample of rows."""
        inputs, targets = self.rows[:, :num_inputs], self.rows[:, num_inputs:-2]
        return OwnRows(inputs, targets, self.rows[:, -2].long(), self.rows[:, -1].bool())


Sums = Mapping[str, PlantSums]
"""Sums by plant; the only one of a log of one has an empty name."""


def merged(one: Sums, other: Sums) -> Sums:
    """Return the sums of both."""
    return {**one, **{name: one[name] + sums if name in one else sums for name, sums in other.items()}}


@dataclass(frozen=True, slots=True, eq=False)
class ShardTask:
    """A function of the number of a share that returns the bytes of its sums around the charts of a model."""

    log: LargeLog
    steps: OneStep
    shards: Sequence[Sequence[LogPart]]

    def __call__(self, number: int) -> bytes:
        """Return the sums of a share as bytes."""
        torch.set_num_threads(1)
        return pickle.dumps(self.sums(number))

    def sums(self, number: int) -> Sums:
        """Return the sums of a share, in bounded memory."""
        return reduce(merged, map(self._of_part, self.shards[number]))

    def _of_part(self, part: LogPart) -> Sums:
        return {name: self._of_rows(data, part) for name, data in self.log.read(part).items()}

    def _of_rows(self, data: Transitions, part: LogPart) -> PlantSums:
        groups, steps = self.log.groups(data, self.steps.rows.num_groups), self.steps
        rows = torch.zeros(0, 0, dtype=torch.float64)
        if self.log.plant is not None:
            batch = RowBatch.of_log(data, groups, steps.rows.num_groups)
            facts = torch.stack([groups.double(), data.terminated.double()], dim=1)
            rows = torch.cat([batch.inputs, batch.targets, facts], dim=1)
        # Edges over the sample that the model was fitted to.
        (low, high), rewards = steps.rows.extremes, steps.rows.targets[:, steps.num_states]
        ends = torch.cat([low, rewards.min()[None]]), torch.cat([high, rewards.max()[None]])
        columns = ColumnCounts.between(*ends).with_rows(data)
        starts = self.log.starts(data, part)
        statistics = steps.statistics(data, groups)
        return PlantSums(statistics, _sampled(starts), _sampled(rows), columns, data.repairs)


def _sampled(rows: torch.Tensor) -> torch.Tensor:
    """Return distinct rows, those with the smallest hashes."""
    hashes, order = row_hashes(rows).sort(stable=True)
    first = torch.ones(len(rows), dtype=torch.bool)
    first[1:] = hashes[1:] != hashes[:-1]
    return rows[order[first][:_MOST_KEPT]]
