"""What other plants of a kind add to the rows of one: weights by its held-out one-step error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from nopg._typing import FloatArray
from nopg.large_logs._sums import PlantSums
from nopg.models._chart_fit import ChartFit
from nopg.models._held_out_rows import OwnRows
from nopg.models._one_step import OneStep
from nopg.models._statistics import Statistics

__all__ = ["Pool", "Pooling"]

# Effective rows of other plants that are compared, in units of the plant's own rows.
_RATIOS = (0.1, 1.0, 10.0, 100.0, 1000.0)
# More rows of others must lower the error by this factor.
_WORTH_IT = 0.98
_FOLDS = 3
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
        fleet_error: From the rows of all other plants, without its own.
    """

    weights: Mapping[str, float]
    rows: float
    own_error: float
    pooled_error: float
    fleet_error: float


class Pooling:
    """Finds for a plant which others help to predict it.

    Weights w ≥ 0, Σw = 1, of other plants are those whose combined predictions fit the plant's rows best, as
    in synthetic control (Abadie, Diamond and Hainmueller 2010). How much the combination counts beside the
    plant's own rows is the effective number of rows with the least error; for every error, weights and fits
    come from other groups of rows.

    Args:
        steps: Charts that all sums are around.
        plants: Sums by plant.
    """

    def __init__(self, steps: OneStep, plants: Mapping[str, PlantSums]) -> None:
        self._steps, self._plants = steps, plants
        least = _FEW_ROWS * float(np.median([one.statistics.num_rows for one in plants.values()]))
        self._donors = [name for name, one in plants.items() if one.statistics.num_rows >= least]
        spread = steps.rows.spread
        learned = {column for charts in steps.blocks for column in charts.columns}
        self._columns = [k for k in sorted(learned) if spread[k] > 0]
        self._spread = spread[self._columns]

    @cached_property
    def _fits(self) -> dict[str, list[ChartFit]]:
        return {name: self._steps.fits_to(self._plants[name].statistics) for name in self._donors}

    def pool(self, name: str) -> Pool:
        """Return what is pooled with a plant."""
        own = self._plants[name]
        rows = own.own_rows(self._steps.rows.inputs.shape[1])
        donors = [other for other in self._donors if other != name]
        (folds, apart), truth, own_error = _folds(rows, own.statistics), self._scaled(rows.targets), np.inf
        if apart:
            kept_sums = ((own.statistics.scaled(1.0, kept), some) for some, kept in folds)
            own_error = _root_mean([self._fitted_errors(sums, rows, some) for sums, some in kept_sums])
        if not donors:
            return Pool({}, 0.0, own_error, own_error, np.nan)
        by_donor = torch.stack([self._predicted(self._fits[other], rows.inputs) for other in donors])
        sizes = np.array([self._plants[other].statistics.num_rows for other in donors])
        mean = torch.einsum("q,qmt->mt", torch.as_tensor(sizes / sizes.sum()), by_donor)
        fleet_error = _root_mean([(mean - truth).square()])

        weights = _combination(by_donor, truth)
        most = float((sizes[weights > 0] / weights[weights > 0]).min())
        mixed = [
            self._mixture(
                dict(zip(donors, _combination(by_donor[:, ~some], truth[~some]), strict=True)), most
            )
            for some, _ in folds
        ]
        count, best, best_error = own.statistics.num_rows, 0.0, own_error
        for extra in sorted({min(ratio * count, most) for ratio in _RATIOS}):
            errors = [
                self._fitted_errors(own.statistics.scaled(1.0, kept) + other.scaled(extra / most), rows, some)
                for (some, kept), other in zip(folds, mixed, strict=True)
            ]
            if (error := _root_mean(errors)) < _WORTH_IT * best_error:
                best, best_error = extra, error
        order = [k for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
        named = {donors[k]: float(weights[k]) for k in order}
        return Pool(named, best, own_error, best_error, fleet_error)

    def pooled(self, name: str, pool: Pool) -> Statistics:
        """Return the sums of a plant with those that are pooled."""
        own = self._plants[name].statistics
        return own if pool.rows == 0 else own + self._mixture(pool.weights, pool.rows)

    def _mixture(self, weights: Mapping[str, float], rows: float) -> Statistics:
        """Return sums over other plants that count as this many rows together."""
        some = {name: weight for name, weight in weights.items() if weight > 0}
        sums = {name: self._plants[name].statistics for name in some}
        return reduce(add, (one.scaled(rows * some[name] / one.num_rows) for name, one in sums.items()))

    def _scaled(self, targets: Tensor) -> Tensor:
        return targets[:, self._columns] / self._spread

    def _predicted(self, fits: list[ChartFit], inputs: Tensor) -> Tensor:
        return self._scaled(self._steps.targets(fits, inputs))

    def _fitted_errors(self, statistics: Statistics, rows: OwnRows, some: Tensor) -> Tensor:
        """Return the squared errors (m, t) of sums on some rows."""
        found = self._predicted(self._steps.fits_to(statistics), rows.inputs[some])
        return (found - self._scaled(rows.targets[some])).square()


def _folds(rows: OwnRows, own: Statistics) -> tuple[list[tuple[Tensor, Tensor]], bool]:
    """Return rows (m,) that are held out together, with the groups (G,) that are kept then.

    The second is whether there are rows in several groups; otherwise none of the plant's sums are kept.
    """
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
