"""Which inputs, distances, radius, degree and ridge predict held-out groups of rows best, for each target."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nopg.models._charts import ChartShape, kernel_weights
from nopg.models._global_fit import GlobalFit
from nopg.models._regression_rows import RegressionRows, design

__all__ = ["HeldOutFit", "select_shapes"]

_ROWS_ASKED, _ROWS_ASKED_WHILE_SEARCHING = 400, 200
_ROWS_KNOWN = 4_000
# What is tried: reference rows per coefficient, ridges.
_SIZES, _RIDGES = (2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0), (1e-6, 1e-4, 1e-2, 1e-1, 1.0)
_FEW_SIZES, _FEW_RIDGES = (3.0, 10.0), (1e-4, 1e-1)
_MOST_NEIGHBORS = 240
# Weights of an input in distances that are tried, relative to the present one; 0 is global in that input.
_FACTORS = (0.0, 0.3, 3.0)
# An error so near the least, or next to nothing, is as good: the simpler wins.
_AS_GOOD, _NEXT_TO_NOTHING = 1.03, 1e-10
# With no more than this error the global fit is enough, even where charts do better.
_ENOUGH = 1e-6
# Squared errors in units of the variance count for R² up to this: a wild extrapolation is one bad row.
_WILD = 4.0
# What an input, or a distance of its own, must gain to be kept.
_WORTH_IT = 0.95
# How much worse a shape may be for a target that shares it.
_SHARED = 1.01


@dataclass(frozen=True, slots=True)
class HeldOutFit:
    """How a target was fitted and how well held-out rows are predicted.

    Attributes:
        shape: Of its charts.
        error: Mean squared error over held-out rows in units of the target's variance, each row's at most 1.
        error_of_all_inputs: The same with every input in use and distances as they come.
        r_squared: Share of the variance of held-out rows that is explained; a row's error counts as at most
            two standard deviations of the target.
    """

    shape: ChartShape
    error: float
    error_of_all_inputs: float
    r_squared: float


def select_shapes(rows: RegressionRows) -> list[HeldOutFit]:
    """Return the fit of every target, shape (t,); one that is as good with another's shape shares it."""
    search = _Search(rows)
    varies = rows.inputs.amax(dim=0) > rows.inputs.amin(dim=0)
    plain = _Inputs(varies, varies.double())
    base = search.errors(plain, final=True)
    tried, found = [base], list[HeldOutFit]()
    for target in range(rows.targets.shape[1]):
        alone = _best(base, target)
        reference = base[alone][target]
        floor = _NEXT_TO_NOTHING if alone.is_local else _ENOUGH
        mine = _own_inputs(search, plain, target, floor, exact=reference <= floor)
        if mine is not plain:
            tried.append(search.errors(mine, final=True))
            own = _best(tried[-1], target)
            if tried[-1][own][target] < max(_WORTH_IT * reference, floor):
                alone = own
        error = min(errors[alone][target] for errors in tried if alone in errors)
        shared = _as_good(tried, [fit.shape for fit in found], target, error)
        shape, error = shared or (alone, error)
        found.append(HeldOutFit(shape, error, reference, 1.0 - search.unexplained[shape][target]))
    return found


def _as_good(
    tried: list[dict[ChartShape, list[float]]], shapes: list[ChartShape], target: int, error: float
) -> tuple[ChartShape, float] | None:
    """Return a shape of another target that predicts this one as well, and its error."""
    enough = max(_SHARED * error, _NEXT_TO_NOTHING)
    for shape in shapes:
        for errors in tried:
            if shape in errors and errors[shape][target] <= enough:
                return shape, errors[shape][target]
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """Which inputs are regressors, and the weight of each in distances."""

    used: Tensor
    metric: Tensor

    def dropped(self, column: int) -> _Inputs:
        used, metric = self.used.clone(), self.metric.clone()
        used[column], metric[column] = False, 0.0
        return _Inputs(used, metric)

    def scaled(self, column: int, factor: float) -> _Inputs:
        metric = self.metric.clone()
        metric[column] *= factor
        return _Inputs(self.used, metric)


def _own_inputs(search: _Search, plain: _Inputs, target: int, floor: float, *, exact: bool) -> _Inputs:
    """Return the inputs of one target by coordinate search: drop what does not help, stretch what does.

    Args:
        search: Finds errors.
        plain: All inputs.
        target: Its number.
        floor: Errors below it are equal.
        exact: Whether all inputs reach the floor already; then some are dropped and none is stretched.
    """
    if search.rows.spread[target] == 0:
        return plain
    best, least = plain, max(search.least(plain, target), floor)
    for drops in (True,) if exact else (True, False):
        for column in plain.used.nonzero()[:, 0].tolist():
            if not best.used[column] or int(best.used.sum()) == 1:
                continue
            tried = [best.dropped(column)] if drops else [best.scaled(column, k) for k in _FACTORS]
            for one in tried:
                error = max(search.least(one, target), floor)
                if error <= (_AS_GOOD if drops else _WORTH_IT) * least:
                    best, least = one, min(error, least)
    return best


class _Search:
    """Predicts rows of every group from those of the others, for many shapes."""

    def __init__(self, rows: RegressionRows) -> None:
        self.rows = rows
        self._known = rows.sample[:_ROWS_KNOWN]
        self._asked = rows.sample[:_ROWS_ASKED]
        self._scale = torch.where(rows.spread > 0, rows.spread, 1.0)
        self.unexplained: dict[ChartShape, list[float]] = {}

    def least(self, inputs: _Inputs, target: int) -> float:
        """Return the least error of a target over a few shapes."""
        return min(errors[target] for errors in self.errors(inputs, final=False).values())

    def errors(self, inputs: _Inputs, *, final: bool) -> dict[ChartShape, list[float]]:
        """Return the error of each target for every shape that is tried."""
        rows, found = self.rows, dict[ChartShape, list[float]]()
        asked = self._asked if final else self._asked[:_ROWS_ASKED_WHILE_SEARCHING]
        squared, near = self._neighbors(inputs, asked)
        if near.shape[1] == 0:
            alone = ChartShape(inputs.used, inputs.metric, 1, 0, math.inf)
            found = {alone: [1.0] * rows.targets.shape[1]}
            self.unexplained |= found
            return found

        def note(shape: ChartShape, missed: Tensor) -> None:
            wrong = (missed / self._scale).square()
            found[shape] = wrong.clamp(max=1.0).mean(dim=0).tolist()
            self.unexplained[shape] = wrong.clamp(max=_WILD).mean(dim=0).tolist()

        apart = rows.space.offsets(rows.inputs[asked][:, None], rows.inputs[near])
        regressors = inputs.used.nonzero()[:, 0]
        local = inputs.metric[regressors]
        weights = rows.weights[near]
        missed = {g: self._missed(inputs, asked, near, g) for g in (1, 2)}
        for g, (_, truth) in missed.items():
            note(ChartShape(inputs.used, inputs.metric, 1, 0, math.inf, g), truth)
        sizes, ridges = (_SIZES, _RIDGES) if final else (_FEW_SIZES, _FEW_RIDGES)
        plans = itertools.product((1,), (1, 2), sizes)
        for g, degree, size in (*plans, *((2, 1, size) for size in _FEW_SIZES if final)):
            residuals, truth = missed[g]
            shape = ChartShape(inputs.used, inputs.metric, degree, 0, 0.0, g)
            p = shape.num_coefficients
            K = math.ceil(size * p)
            if near.shape[1] < K or K > _MOST_NEIGHBORS:
                continue
            radius = squared[:, K - 1 : K].sqrt() * (1.0 + 1e-6)
            kappa = kernel_weights(squared[:, :K], radius) * weights[:, :K]
            scale = torch.where(local > 0, local / radius.clamp(min=1e-300), 1.0)
            phi = design(apart[:, :K][:, :, regressors] * scale[:, None], degree)
            weighted = phi * kappa[:, :, None]
            gram, moment = weighted.mT @ phi, weighted.mT @ residuals[:, :K]
            total = gram[:, 0, 0, None]
            for ridge in ridges:
                penalty = torch.diag_embed(((ridge + 1e-9) * total).expand(-1, p))
                level = torch.linalg.solve(gram + penalty, moment)[:, 0]
                note(replace(shape, num_neighbors=K, ridge=ridge), level - truth)
        return found

    def _neighbors(self, inputs: _Inputs, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Return squared distances and numbers (m, K) of the nearest known rows of other groups."""
        rows = self.rows
        points = rows.space.embed(rows.inputs, inputs.metric)
        squared = torch.cdist(points[asked], points[self._known]).square()
        own = rows.groups[asked][:, None] == rows.groups[self._known]
        squared = squared.masked_fill(own, math.inf)
        most = min(_MOST_NEIGHBORS, int((~own).sum(dim=1).min()))
        squared, near = squared.topk(most, dim=1, largest=False)
        return squared, self._known[near]

    def _missed(self, inputs: _Inputs, asked: Tensor, near: Tensor, degree: int) -> tuple[Tensor, Tensor]:
        """Return what global fits without a row's group miss of its neighbours (m, K, t) and of itself."""
        rows = self.rows
        whole = GlobalFit.of(rows, inputs.used, degree, list(range(rows.targets.shape[1])))
        fits = whole.coefficients(~torch.eye(rows.num_groups, dtype=torch.bool))
        mine, X = fits[rows.groups[asked]], whole.features  # (m, q, t), (n, q)
        left = rows.targets[near] - X[near] @ mine
        return left, rows.targets[asked] - torch.einsum("mq,mqt->mt", X[asked], mine)


def _best(errors: dict[ChartShape, list[float]], target: int) -> ChartShape:
    """Return the simplest shape whose error is near the least."""
    least = _AS_GOOD * min(each[target] for each in errors.values())
    floors = {True: _NEXT_TO_NOTHING, False: _ENOUGH}
    good = [shape for shape, each in errors.items() if each[target] <= max(least, floors[shape.is_local])]
    return min(
        good,
        key=lambda shape: (
            shape.is_local,
            shape.global_degree,
            shape.num_coefficients,
            -shape.ridge,
            -shape.num_neighbors,
        ),
    )
