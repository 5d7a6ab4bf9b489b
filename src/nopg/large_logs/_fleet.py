"""Many plants of a kind: one summary for all, or one for each with what others add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.large_logs._pooling import Pool, Pooling
from nopg.large_logs._sums import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import LogSummary
from nopg.models._one_step import OneStep

if TYPE_CHECKING:
    import pandas as pd

# With fewer states in which its task begins, a plant begins where others do as well.
_FEW_STARTS = 30
# A plant stands out beyond this robust z-score of its log error; among few plants none does. Chosen on fleets
# of the study with seeds from 100 on.
STANDS_OUT, _FEWEST = 2.5, 8
# Standard deviation of a normal sample over the median of its absolute deviations.
_NORMAL = 1.4826
# Most alike plants that are named.
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Fleet:
    """Sums over the rows of every plant of a kind, around the same charts.

    Attributes:
        sample: Rows of all plants, from which the charts are placed.
        groups: The group of each row of the sample, shape (n,).
        plants: Sums, starts and a sample of the rows of each plant, by name.
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
        """Return the summary of one plant: its own rows, and as many of others as predict it best."""
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

    def report(self) -> pd.DataFrame:
        """Return a table of the plants: rows, errors of `Pool`, share of others, the most alike, score.

        The score is a robust z-score of the log error with which all other plants predict a plant; one
        `stands_out` if they predict it far worse than plants usually are.
        """
        import pandas as pd

        pools = [self.pool(name) for name in self.plants]
        rows = [one.statistics.num_rows for one in self.plants.values()]
        scores = robust_scores(np.array([pool.fleet_error for pool in pools]))
        columns = {
            "rows": rows,
            "own_error": [pool.own_error for pool in pools],
            "pooled_error": [pool.pooled_error for pool in pools],
            "fleet_error": [pool.fleet_error for pool in pools],
            "others": [pool.rows / (own + pool.rows) for own, pool in zip(rows, pools, strict=True)],
            "most_alike": [", ".join([*pool.weights][:_NAMED]) for pool in pools],
            "score": scores,
            "stands_out": scores > STANDS_OUT,
        }
        return pd.DataFrame(columns, index=pd.Index([*self.plants], name="plant"))


def robust_scores(errors: FloatArray) -> FloatArray:
    """Return robust z-scores of log errors; 0 among few plants."""
    if len(errors) < _FEWEST:
        return np.zeros(len(errors))
    logs = np.log(np.maximum(errors, 1e-300))
    apart = logs - np.median(logs)
    return np.asarray(apart / max(_NORMAL * float(np.median(np.abs(apart))), 1e-12))
