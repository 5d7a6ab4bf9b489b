"""What one pass over parts of a log keeps; it adds up."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from nopg.data import Repairs, Transitions
from nopg.errors import DataError
from nopg.large_logs._log import LargeLog, LogPart, row_hashes
from nopg.models._log_summary import ColumnCounts, OwnRows, Statistics
from nopg.models._one_step import OneStep
from nopg.models._regression_rows import RowBatch

# Starts that are kept, and rows of a plant by which its predictions are compared.
_MOST_STARTS = _MOST_ROWS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class PlantSums:
    """Sums over rows of one plant, and samples: those with the smallest hashes, the same ones in any order.

    Attributes:
        statistics: Sums of the charts.
        starts: A sample of the states in which the task begins, shape (m, d_s).
        rows: A sample of the rows: inputs, targets, group and end of the task of each, shape (m, d + t + 2);
            none of a log of one plant.
        columns: How the values of columns lie.
    """

    statistics: Statistics
    starts: torch.Tensor
    rows: torch.Tensor
    columns: ColumnCounts

    def __add__(self, other: PlantSums) -> PlantSums:
        return PlantSums(
            self.statistics + other.statistics,
            _fewest(self.starts, other.starts, _MOST_STARTS),
            _fewest(self.rows, other.rows, _MOST_ROWS),
            self.columns + other.columns,
        )

    def own_rows(self, num_inputs: int) -> OwnRows:
        """Return the sample of rows."""
        inputs, targets = self.rows[:, :num_inputs], self.rows[:, num_inputs:-2]
        return OwnRows(inputs, targets, self.rows[:, -2].long(), self.rows[:, -1].bool())


@dataclass(frozen=True, slots=True, eq=False)
class PassSums:
    """Sums over rows of a log by plant, and repairs; the only plant of a log of one has an empty name."""

    plants: Mapping[str, PlantSums]
    repairs: Repairs

    def __add__(self, other: PassSums) -> PassSums:
        both = dict(self.plants)
        for name, sums in other.plants.items():
            both[name] = both[name] + sums if name in both else sums
        return PassSums(both, self.repairs + other.repairs)


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

    def sums(self, number: int, advance: Callable[[int], None] | None = None) -> PassSums:
        """Return the sums of a share, in bounded memory; `advance` gets the number of rows of each part."""
        found, repairs = dict[str, PlantSums](), Repairs()
        for part in self.shards[number]:
            for name, data in self.log.read(part).items():
                found[name] = self._with_rows(found.get(name), data, part)
                repairs += data.repairs
                if advance:
                    advance(len(data))
        if not found:
            raise DataError("there are no parts to sum")
        return PassSums(found, repairs)

    def _with_rows(self, before: PlantSums | None, data: Transitions, part: LogPart) -> PlantSums:
        """Return the sums with further rows of the plant; those before are changed in place."""
        log, steps = self.log, self.steps
        groups = log.groups(data, steps.rows.num_groups)
        statistics = steps.statistics(data, groups, None if before is None else before.statistics)
        starts, rows = log.starts(data, part), torch.zeros(0, 0, dtype=torch.float64)
        if log.plant is not None:
            batch = RowBatch.of_log(data, groups, steps.rows.num_groups)
            facts = torch.stack([groups.double(), data.terminated.double()], dim=1)
            rows = torch.cat([batch.inputs, batch.targets, facts], dim=1)
        return PlantSums(
            statistics,
            _fewest(starts[:0] if before is None else before.starts, starts, _MOST_STARTS),
            _fewest(rows[:0] if before is None else before.rows, rows, _MOST_ROWS),
            (_no_counts(steps) if before is None else before.columns).with_rows(data),
        )


def _no_counts(steps: OneStep) -> ColumnCounts:
    """Return the counts of no rows, with edges over the sample that a model was fitted to."""
    (low, high), rewards = steps.rows.extremes, steps.rows.targets[:, steps.num_states]
    least, largest = rewards.aminmax()
    return ColumnCounts.between(torch.cat([low, least[None]]), torch.cat([high, largest[None]]))


def _fewest(one: torch.Tensor, other: torch.Tensor, most: int) -> torch.Tensor:
    """Return the distinct rows of both with the smallest hashes."""
    rows = torch.cat([one, other])
    hashes, order = row_hashes(rows).sort(stable=True)
    first = torch.ones(len(rows), dtype=torch.bool)
    first[1:] = hashes[1:] != hashes[:-1]
    return rows[order[first][:most]]
