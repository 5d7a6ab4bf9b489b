"""Many plants of a kind: one summary for all, or one for each with what others add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.large_logs._fleet_report import FleetReport
from nopg.large_logs._pooling import Pool, Pooling
from nopg.large_logs._sums import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import LogSummary
from nopg.models._one_step import OneStep

# With fewer states in which its task begins, a plant begins where others do as well.
_FEW_STARTS = 30


@dataclass(frozen=True, eq=False)
class Fleet:
    """Sums over the rows of every plant of a kind, around the same charts.

    Attributes:
        sample: Rows of all plants, from which the charts are placed.
        groups: The group of each row of the sample, shape (n,).
        plants: Sums, starts and a sample of the rows of each plant, by name.

    Example:
        >>> fleet = summarize_fleet("pumps-*.parquet", plant="pump")  # doctest: +SKIP
        >>> print(fleet.report())  # doctest: +SKIP
        >>> result = nopg.optimize(fleet.plant("p07"), discount=0.97)  # doctest: +SKIP
    """

    sample: Transitions
    groups: torch.Tensor
    plants: Mapping[str, PlantSums]
    _pools: dict[str, Pool] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        sample = f"{len(self.sample)} of them as a sample"
        return f"Fleet({len(self.plants)} plants, {self.num_rows} rows, {sample})"

    @property
    def num_rows(self) -> int:
        """Number of rows of all plants."""
        return sum(one.statistics.num_rows for one in self.plants.values())

    @cached_property
    def _steps(self) -> OneStep:
        return LocalModel(self.sample, groups=self.groups).steps.lean()

    @cached_property
    def _pooling(self) -> Pooling:
        return Pooling(self._steps, self.plants)

    def summary(self) -> LogSummary:
        """Return the summary of all plants, for one controller for all of them."""
        total = reduce(add, self.plants.values())
        sample = self.sample.starting_at(total.starts)
        return LogSummary(sample, self.groups, total.statistics, columns=total.columns)

    def plant(self, name: str) -> LogSummary:
        """Return the summary of one plant: its own rows, and as many of others as predict it best.

        Args:
            name: Of the plant.
        """
        pool, own = self.pool(name), self.plants[name]
        starts = own.starts
        if len(starts) < _FEW_STARTS:
            starts = reduce(add, self.plants.values()).starts
        return LogSummary(
            self.sample.starting_at(starts),
            self.groups,
            self._pooling.pooled(name, pool),
            own.own_rows(self._steps.rows.inputs.shape[1]),
        )

    def pool(self, name: str) -> Pool:
        """Return which other plants count for a plant, and how much, by its held-out one-step error."""
        if name not in self.plants:
            raise ArgumentError(f"there is no plant {name!r}; there are {', '.join(self.plants)}")
        if name not in self._pools:
            self._pools[name] = self._pooling.pool(name)
        return self._pools[name]

    def report(self) -> FleetReport:
        """Return for every plant how well it is predicted, whom it is like, and whether it stands out."""
        pools = {name: self.pool(name) for name in self.plants}
        return FleetReport.of(pools, {name: one.statistics.num_rows for name, one in self.plants.items()})
