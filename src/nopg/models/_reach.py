"""How far beyond its rows a fit holds: what one of the inner rows of a log misses in the outer ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nopg._support import Support
from nopg._typing import BoolArray, FloatArray
from nopg.models._additive_reward import AdditiveReward
from nopg.models._chart_fit import ChartFit
from nopg.models._charts import Charts
from nopg.models._excitation import TOLERATED, Excitation, fit_variances, noise_share
from nopg.models._limits import input_range
from nopg.models._regression_rows import RegressionRows

# Rows that the test takes at most and at least, and the share of them that are inner ones.
_MOST_ROWS, _FEWEST_ROWS, _INNER = 2_000, 30, 0.7
# Standard errors that are added to the growth of the error: what few rows hide is not followed.
_DEVIATIONS = 2.0
# The least growth: no log shows what lies far beyond it.
LEAST_GROWTH = 0.02


def growth_of(charts: Charts, excitation: Excitation, past: BoolArray) -> float:
    """Return by what the squared error of charts grows with the squared distance from their rows.

    It is in units of the tolerated variance per squared radius, or per squared tenth of the logged range
    beyond that: at 1 a fit is not followed far beyond its rows, at 1/25 five times as far. Outer rows are
    predicted by the same charts, fitted to inner rows alone; of what they miss, the noise and the uncertainty
    of the slopes, by the excitation of all rows, are taken off. What is left may be chance, so its upper
    limit counts. Columns of `past` (d_s,) values are free.
    """
    rows = charts.rows
    split = _inner_and_outer(rows, charts.shape.used)
    if split is None:
        return 1.0
    inner, outer = split
    known = _subset(rows, inner)
    fitted = Charts(known, charts.columns, charts.shape, excitation.of_rows(known))
    inputs = rows.inputs[outer].T.contiguous().numpy()
    fit = ChartFit(fitted, torch.ones(1, rows.num_groups, dtype=torch.bool))
    predicted, _ = fit.predict(inputs, None, slopes=False, noise=False)
    missed = rows.targets[outer][:, charts.columns].numpy() - predicted[: len(charts.columns)].T
    distance, unsure = _geometry(fitted, known, inputs, past)
    total = TOLERATED * distance.sum()
    growth = LEAST_GROWTH
    for place, column in enumerate(charts.columns):
        spread = rows.spread[column]
        if spread > 0 and total > 0:
            noise = float(noise_share(fitted.noise[:, place], spread).mean())
            excess = np.square(missed[:, place] / float(spread)) - noise - TOLERATED * unsure
            growth = max(growth, _upper_sum(excess, rows.groups[outer]) / float(total))
    return min(growth, 1.0) if total > 0 else 1.0


def growth_of_reward(reward: AdditiveReward, rows: RegressionRows, past: BoolArray) -> float:
    """Return the same as `growth_of` of a learned reward, whatever columns it depends on in these rows."""
    every = torch.ones(rows.inputs.shape[1], dtype=torch.bool)
    split = _inner_and_outer(rows, every)
    if split is None:
        return 1.0
    inner, outer = split
    ones = torch.ones(len(every), dtype=torch.float64)
    beyond = Support(*input_range(rows.space, _subset(rows, inner).extremes, ones, past), (), ())
    total = TOLERATED * beyond.around(rows.inputs[outer].T.numpy())[0].sum()
    excess = reward.errors(rows, inner, outer) - reward.errors(rows, inner, inner).mean()
    found = _upper_sum(excess.numpy(), rows.groups[outer]) / float(total) if total > 0 else 1.0
    return min(max(found, LEAST_GROWTH), 1.0)


def _inner_and_outer(rows: RegressionRows, used: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return rows that lie within others by the used inputs (d,), and these; None if there are few."""
    few = rows.sample[:_MOST_ROWS]
    if len(few) < _FEWEST_ROWS:
        return None
    first = rows.space.features(rows.inputs[few], used, 1)[:, 1:]
    scale = first.std(dim=0, correction=0)
    varies = scale > 0
    if not bool(varies.any()):
        return None
    away = ((first - first.median(dim=0).values).abs() / torch.where(varies, scale, 1.0))[:, varies]
    order = few[away.amax(dim=1).argsort(stable=True)]
    return order[: round(_INNER * len(few))], order[round(_INNER * len(few)) :]


def _subset(rows: RegressionRows, some: Tensor) -> RegressionRows:
    """Return some of the rows, in this order."""
    batch = rows.take(some)
    return replace(
        rows,
        inputs=batch.inputs,
        targets=batch.targets,
        weights=batch.weights,
        groups=batch.groups,
        sample=torch.arange(len(some)),
    )


def _geometry(
    charts: Charts, rows: RegressionRows, inputs: FloatArray, past: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the squared distances of inputs (d, m) from the rows of charts, and what slopes leave open."""
    growth = torch.where(charts.shape.used, 1.0, LEAST_GROWTH)
    beyond, _ = Support(*input_range(rows.space, rows.extremes, growth, past), (), ()).around(inputs)
    if not len(charts.centers):
        degree = charts.shape.global_degree
        (fit,) = fit_variances({degree: Excitation.of(rows, degree)}, [(degree, charts.unexplained)])
        return beyond, fit.at(inputs, slopes=False)[0]
    near = charts.support
    distance = replace(near, covariance=0.0 * near.covariance).distance(inputs)
    return distance + beyond, near.distance(inputs) - distance


def _upper_sum(values: FloatArray, groups: Tensor) -> float:
    """Return the upper limit of a sum over rows, of which those of a group are not independent."""
    number = groups.numpy()
    sums = np.bincount(number, weights=values)
    counts = np.bincount(number)
    sums, counts = sums[counts > 0], counts[counts > 0]
    if len(sums) < 2:
        return math.inf
    errors = sums - counts * (values.sum() / len(values))
    return float(
        values.sum() + _DEVIATIONS * math.sqrt(np.square(errors).sum() * len(sums) / (len(sums) - 1))
    )
