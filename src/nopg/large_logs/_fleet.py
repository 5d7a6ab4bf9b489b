"""Many plants of a kind: one summary for all, or one for each with what others add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.large_logs._log import PlantSums
from nopg.models import LocalModel
from nopg.models._chart_fit import ChartFit
from nopg.models._log_summary import LogSummary, OwnRows, Statistics
from nopg.models._one_step import OneStep
from nopg.models._regression_rows import RowBatch

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
# Effective rows of other plants that are compared, in units of the plant's own rows.
_RATIOS = (0.1, 1.0, 10.0, 100.0, 1000.0)
# Errors within this factor of the least are equal: more rows are then more certain.
_AS_GOOD = 1.02
_FOLDS = 3
# Parts of the fleet; a plant is predicted by those that it is not in.
_PARTS = 5
# Plants with less than this share of the median number of rows are not pooled into others.
_FEW_ROWS = 0.25
# Other plants with a smaller weight are left out.
_LEAST_WEIGHT = 0.01
# Weight of the condition that weights add up to 1.
_EXACT = 1e3


@dataclass(frozen=True, slots=True)
class Pool:
    """Other plants whose rows count beside the plant's own.

    Errors are root mean squares of one-step predictions on held-out rows of the plant, in standard deviations
    of the steps of all plants.

    Attributes:
        weights: Of other plants, by name, the largest first; they add up to 1.
        rows: Effective number of rows of them; 0 if the plant's own are best alone.
        own_error: From the plant's own rows; infinite if there are none to hold out.
        pooled_error: From its own rows and those of others.
        fleet_error: From the rows of the other four fifths of the plants.
    """

    weights: Mapping[str, float]
    rows: float
    own_error: float
    pooled_error: float
    fleet_error: float


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
    def _donors(self) -> list[str]:
        """The plants whose rows may be pooled into others."""
        rows = {name: one.statistics.num_rows for name, one in self.plants.items()}
        return [
            name for name, count in rows.items() if count >= _FEW_ROWS * float(np.median([*rows.values()]))
        ]

    @cached_property
    def _columns(self) -> list[int]:
        """The targets that are learned and vary."""
        learned = {column for charts in self._steps.blocks for column in charts.columns}
        return [k for k in sorted(learned) if self._steps.rows.spread[k] > 0]

    @cached_property
    def _fits(self) -> dict[str, list[ChartFit]]:
        return {name: self._steps.fits_to(self.plants[name].statistics) for name in self._donors}

    @cached_property
    def _fits_of_rest(self) -> list[list[ChartFit]]:
        """Fits to all plants but those of one part of the fleet, for each part."""
        names = list(self.plants)
        parts = [names[k::_PARTS] for k in range(min(_PARTS, len(names)))]
        sums = [reduce(add, (self.plants[name].statistics for name in part)) for part in parts]
        rest = [[one for k, one in enumerate(sums) if k != left_out] for left_out in range(len(sums))]
        return [self._steps.fits_to(reduce(add, some)) for some in rest]

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
            self._pooled(name, pool),
            own.own_rows(self._steps.rows.inputs.shape[1]),
        )

    def pool(self, name: str) -> Pool:
        """Return which other plants count for a plant, and how much, by its held-out one-step error.

        Weights w ≥ 0, Σw = 1, of other plants are those whose combined predictions f = Σ w_q f_q fit the
        plant's rows best, as in synthetic control (Abadie, Diamond and Hainmueller 2010). Rows of these
        plants are moved to the plant, y − f_q(x) + f(x), and count beside its own with the number of
        effective rows that has the least error. For every error, weights and fits come from other groups.
        """
        if name not in self.plants:
            raise ArgumentError(f"there is no plant {name!r}; there are {', '.join(self.plants)}")
        own, rows = self.plants[name].statistics, self._rows(name)
        donors = [other for other in self._donors if other != name]
        (folds, apart), truth, own_error = _folds(rows, own), self._scaled(rows.targets), np.inf
        if apart:
            own_error = _root_mean([self._errors(own.scaled(1.0, kept), rows, some) for some, kept in folds])
        if not donors:
            return Pool({}, 0.0, own_error, own_error, np.nan)
        rest = self._fits_of_rest[list(self.plants).index(name) % _PARTS]
        fleet_error = _root_mean([(self._predicted(rest, rows.inputs) - truth).square()])

        by_donor = torch.stack([self._predicted(self._fits[other], rows.inputs) for other in donors])
        found = [_combination(by_donor[:, ~some], truth[~some]) for some, _ in folds]
        combined = [
            (torch.einsum("q,qmt->mt", torch.as_tensor(weights), by_donor[:, some]) - truth[some]).square()
            for (some, _), weights in zip(folds, found, strict=True)
        ]
        tried = {0.0: own_error}
        if _root_mean(combined) < own_error:
            moved = [self._moved(_named(donors, one)) for one in found]
            most = min(one.num_rows for one in moved)
            for more in sorted({min(ratio * own.num_rows, most) for ratio in _RATIOS}):
                sums = [
                    (some, own.scaled(1.0, kept) + one.scaled(more / one.num_rows))
                    for (some, kept), one in zip(folds, moved, strict=True)
                ]
                tried[more] = _root_mean([self._errors(one, rows, some) for some, one in sums])
        best = max(more for more, error in tried.items() if error <= _AS_GOOD * min(tried.values()))
        weights = _named(donors, _combination(by_donor, truth))
        return Pool(weights, best, own_error, tried[best], fleet_error)

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

    def _pooled(self, name: str, pool: Pool) -> Statistics:
        """Return the sums of a plant with those that are pooled."""
        own = self.plants[name].statistics
        if pool.rows == 0:
            return own
        moved = self._moved(pool.weights)
        return own + moved.scaled(pool.rows / moved.num_rows)

    def _rows(self, name: str) -> OwnRows:
        return self.plants[name].own_rows(self._steps.rows.inputs.shape[1])

    def _moved(self, weights: Mapping[str, float]) -> Statistics:
        """Return sums over the sampled rows of other plants, moved to what the combination predicts there."""
        found = list[tuple[Tensor, Tensor, Tensor, Tensor]]()
        for name, share in weights.items():
            rows = self._rows(name)
            by_other = {other: self._steps.targets(self._fits[other], rows.inputs) for other in weights}
            combined = sum(weights[other] * by_other[other] for other in weights)
            count = torch.full((len(rows),), share * len(weights), dtype=torch.float64)
            found.append((rows.inputs, rows.targets - by_other[name] + combined, count, rows.groups))
        inputs, targets, counts, groups = map(torch.cat, zip(*found, strict=True))
        batch = RowBatch(inputs, targets, counts, groups, self._steps.rows.num_groups)
        return self._steps.sums_of(batch, batch)

    def _scaled(self, targets: Tensor) -> Tensor:
        return targets[:, self._columns] / self._steps.rows.spread[self._columns]

    def _predicted(self, fits: list[ChartFit], inputs: Tensor) -> Tensor:
        return self._scaled(self._steps.targets(fits, inputs))

    def _errors(self, statistics: Statistics, rows: OwnRows, some: Tensor) -> Tensor:
        """Return the squared errors (m, t) of sums on some rows."""
        found = self._predicted(self._steps.fits_to(statistics), rows.inputs[some])
        return (found - self._scaled(rows.targets[some])).square()


def robust_scores(errors: FloatArray) -> FloatArray:
    """Return robust z-scores of log errors; 0 among few plants."""
    if len(errors) < _FEWEST:
        return np.zeros(len(errors))
    logs = np.log(np.maximum(errors, 1e-300))
    apart = logs - np.median(logs)
    return np.asarray(apart / max(_NORMAL * float(np.median(np.abs(apart))), 1e-12))


def _named(names: Sequence[str], weights: FloatArray) -> dict[str, float]:
    """Return the positive weights by name, the largest first."""
    order = np.argsort(-weights, kind="stable")
    return {names[k]: float(weights[k]) for k in order if weights[k] > 0}


def _folds(rows: OwnRows, own: Statistics) -> tuple[list[tuple[Tensor, Tensor]], bool]:
    """Return rows (m,) that are held out together with the groups (G,) that are kept; and if any are."""
    filled = own.blocks[0][0].grams[:, 0, 0] > 0
    numbers = (filled.cumsum(0) - 1) % _FOLDS
    folds = [(numbers[rows.groups] == k, filled & (numbers != k)) for k in range(_FOLDS)]
    folds = [(some, kept) for some, kept in folds if some.any()]
    if len(folds) > 1:
        return folds, True
    return [(torch.arange(len(rows)) % _FOLDS == k, ~filled & filled) for k in range(_FOLDS)], False


def _combination(predicted: Tensor, truth: Tensor) -> FloatArray:
    """Return weights (Q,) ≥ 0 with sum 1 with which predictions (Q, m, t) fit the truth (m, t) best."""
    A, b = predicted.flatten(1).T.numpy(), truth.flatten().numpy()
    found, _ = nnls(np.vstack([A, np.full((1, A.shape[1]), _EXACT)]), np.append(b, _EXACT))
    found[found < _LEAST_WEIGHT * found.sum()] = 0.0
    weights: FloatArray = found / found.sum()
    return weights


def _root_mean(errors: list[Tensor]) -> float:
    return float(torch.cat(errors).mean().sqrt())
