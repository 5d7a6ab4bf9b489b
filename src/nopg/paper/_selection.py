"""Bandwidths from the data alone: the least held-out error of what the equation uses, r and s′.

    ŷᵢ(h) = Σ_{j≠i} wⱼ exp(−½ Σₖ Dᵢⱼₖ/hₖ²) yⱼ / Σ_{j≠i} …,    Dᵢⱼₖ = (xᵢₖ − xⱼₖ)²,   x = (s, a), y = (r, s′)

is the Nadaraya-Watson prediction of row i from all others, with copies of it left out too, and
∂ŷᵢ/∂log hₖ = Σⱼ εᵢⱼ (yⱼ − ŷᵢ) Dᵢⱼₖ/hₖ². The value of a policy plays no part: a bandwidth that makes the
return look best is not one that predicts best.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._seeding import generator
from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.data._held_out import duplicate_groups
from nopg.errors import DataError
from nopg.paper._config import Bandwidths

_log = logging.getLogger(__name__)

# Rows that are predicted, and the neighbours that each is predicted from.
_MOST_ROWS, _NEIGHBORS = 1_000, 512
# The neighbours depend on h and h on the neighbours; a few rounds converge.
_ROUNDS, _CONVERGED = 4, 1e-3
# Bounds of h in standard deviations of a column.
_NARROWEST, _WIDEST = 1e-4, 1e2
# Between two levels of a grid δ apart, h = δ/2 gives the slope of linear interpolation. Actions without
# levels get this many times their range: narrower, an action is judged by rows at other states.
_ACTION_SHARE, _ACTION_RANGES, _MOST_LEVELS = 0.5, 2.0, 20
# States also diffuse by h in every step of the model; 0.3 comes from a search over pendulum grids.
_STATE_SHARE = 0.3
# After a step much shorter than a bandwidth the model predicts almost no motion; from mountain-car drives.
_STEPS_PER_BANDWIDTH = 1.25
# Largest median distance to the nearest other row, in bandwidths; on grids it is 2 by torque.
_LARGEST_DISTANCE = 2.0
_SAME_LEVEL = 1e-9


def select_bandwidths(data: Transitions) -> Bandwidths:
    """Choose bandwidths from the data alone.

    Those of states minimise the leave-one-out error of the one-step targets (r, s′) between bounds:

    - Above: at most 1.25 median steps, otherwise the model predicts almost no motion.
    - Below: at least a share of the spacing between the levels of a grid. On a grid each held-out row is in
      the middle of its neighbours, where the errors of a step function cancel: leave-one-out would choose
      too narrow a kernel.
    - They are scaled up together until the median row has another within two bandwidths.

    If bounds contradict each other the lower one holds. Those of actions are half the spacing of a grid's
    levels, or at least what leave-one-out finds; of actions without levels they are twice the range, so that
    an action is judged by the rows around a state, and not by those elsewhere that had the same action. They
    are widened after the search: before, they would blur the targets, and those of states would grow to
    compensate.
    """
    table, columns = Table.of(data), np.array(data.schema.feature_columns)
    state_gap, action_gap = level_spacing(data)
    narrowest = np.concatenate([(_STATE_SHARE * state_gap)[columns], np.zeros_like(action_gap)])
    steps = (_STEPS_PER_BANDWIDTH * step_length(data))[columns]
    steps[steps == 0] = np.inf  # a column that is mostly constant has no bound
    action_range = np.ptp(data.actions.numpy(), axis=0)
    widest = np.maximum(narrowest, np.concatenate([steps, _ACTION_SHARE * action_range]))

    h = leave_one_out(table, narrowest, widest)
    levels = action_gap * _MOST_LEVELS > action_range
    wide = np.where(levels, _ACTION_SHARE * action_gap, _ACTION_RANGES * action_range)
    h[len(columns) :] = np.maximum(h[len(columns) :], wide)
    widening = _nearest_other(table, h) / _LARGEST_DISTANCE
    source = "leave-one-out"
    if widening > 1.0 + 1e-9:
        h[: len(columns)] *= widening
        source += f", states widened {widening:.2g} times to reach from row to row"
    _log.info("bandwidths by %s", source)
    return Bandwidths.from_values(h[: len(columns)], h[len(columns) :], source=source)


@dataclass(frozen=True, slots=True)
class Table:
    """Distinct rows of inputs and targets, in units of their spread."""

    inputs: FloatArray  # Features and actions, divided by `scale`, shape (n, d)
    targets: FloatArray  # Rewards and next features, centred and of variance 1, shape (n, t)
    log_counts: FloatArray  # Log of the number of transitions that each row represents, shape (n,)
    scale: FloatArray  # Unit of each input, shape (d,)
    columns: IntArray  # Which free bandwidth each input uses; both features of an angle share one, shape (d,)

    @classmethod
    def of(cls, data: Transitions) -> Table:
        if data.constant_columns:
            raise DataError(
                f"columns {list(data.constant_columns)} hold one value only: no bandwidth can be read from "
                "them; leave them out, or set bandwidths by hand with Bandwidths.from_values(…)"
            )
        state_columns, width = data.schema.feature_columns, data.actions.shape[1]
        columns = np.array([*state_columns, *(len(data.schema.states) + np.arange(width))])
        weights = np.ones(len(data)) if data.weights is None else data.weights.numpy()
        inputs = torch.cat([data.features, data.actions], dim=1).numpy()
        scale = _spread(inputs, weights, columns)
        targets = torch.cat([data.rewards[:, None], data.next_features], dim=1).numpy()
        unit = _spread(targets, weights, np.array([0, *(1 + column for column in state_columns)]))
        # A constant target, such as a reward of −1 per step, is not a target; its deviation is rounding.
        informative = unit > 1e-12 * np.abs(targets).max(axis=0)
        if not informative.any():
            raise DataError(
                "rewards and next states are the same in every row, so there is nothing to predict; "
                "give data in which something happens"
            )
        numbers = duplicate_groups(data).numpy()
        first = np.unique(numbers, return_index=True)[1]
        targets = (targets - np.average(targets, axis=0, weights=weights))[first][:, informative]
        x, y = inputs[first] / scale, targets / unit[informative]
        order = np.lexsort(np.hstack([x, y]).T)  # the order of the rows of the data does not matter
        counts = np.bincount(numbers, weights)
        return cls(x[order], y[order], np.log(counts)[order], scale, columns)


def leave_one_out(table: Table, narrowest: FloatArray, widest: FloatArray) -> FloatArray:
    """Return h (d,) of the least error between bounds; the search begins at Scott's rule."""
    from scipy.optimize import minimize  # slow to import

    n, free = len(table.inputs), int(table.columns.max()) + 1
    lower, upper = np.full(free, _NARROWEST), np.full(free, _WIDEST)
    lower[table.columns] = np.clip(narrowest / table.scale, _NARROWEST, _WIDEST)
    upper[table.columns] = np.clip(widest / table.scale, lower[table.columns], _WIDEST)
    lower, upper = np.log(lower), np.log(upper)
    scott = n ** (-1.0 / (table.inputs.shape[1] + 4))
    log_h = np.clip(math.log(scott), lower, upper)
    rows = torch.randperm(n, generator=generator(0, "held-out rows"))[:_MOST_ROWS].numpy()
    for _ in range(1 if n <= _NEIGHBORS else _ROUNDS):
        others = neighbors(table, rows, np.exp(log_h))
        found = minimize(
            lambda x, others=others: error_and_gradient(table, rows, others, x),
            log_h,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"ftol": 1e-13, "gtol": 1e-9, "maxiter": 100},
        )
        change, log_h = float(np.abs(found.x - log_h).max()), found.x
        if change < _CONVERGED:
            break
    h: FloatArray = np.exp(log_h)[table.columns] * table.scale
    return h


def error_and_gradient(
    table: Table, rows: IntArray, others: IntArray, log_h: FloatArray
) -> tuple[float, FloatArray]:
    """Return the error of rows (m,) predicted from others (m, K), in variances, and its slope by log h."""
    x, y = table.inputs, table.targets
    scaled = np.zeros((len(log_h), *others.shape))
    for k, column in enumerate(table.columns):
        scaled[column] += np.square(x[rows, k][:, None] - x[others, k])
    scaled *= np.exp(-2.0 * log_h)[:, None, None]
    logits = table.log_counts[others] - 0.5 * scaled.sum(axis=0)
    w = np.exp(logits - logits.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    predicted = np.stack([(w * column[others]).sum(axis=1) for column in y.T], axis=1)
    missed = predicted - y[rows]
    # Σₜ (ŷ − y)(yⱼ − ŷ) of neighbour j.
    pull = sum(missed[:, t, None] * (y[others, t] - predicted[:, t, None]) for t in range(y.shape[1]))
    slope = 2.0 * np.einsum("mk,hmk->h", w * pull, scaled)
    return float(np.square(missed).mean()), slope / missed.size


def neighbors(table: Table, rows: IntArray, h: FloatArray) -> IntArray:
    """Return the nearest rows (m, K) of each row, itself left out."""
    places = table.inputs / h[table.columns]
    k = min(_NEIGHBORS + 1, len(places))
    _, near = cKDTree(places).query(places[rows], k=k)
    near = near.reshape(len(rows), k)
    itself = near == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # rows at one place may hide it
    others: IntArray = near[~itself].reshape(len(rows), k - 1)
    return others


def _nearest_other(table: Table, h: FloatArray) -> float:
    """Return the median distance, in bandwidths h (d,), of a row to the nearest other one."""
    places = table.inputs * (table.scale / h)
    return float(np.median(cKDTree(places).query(places, k=2)[0][:, 1]))


def level_spacing(data: Transitions) -> tuple[FloatArray, FloatArray]:
    """Return the typical gap between the levels of each state column and each action column.

    On a grid of experiments this is the spacing of the grid; on continuous recordings, where nearly every row
    has a different value, it is close to 0. Gaps of angles are chords, the unit of their features.
    """
    states = []
    for name, column in zip(data.schema.states, data.states.numpy().T, strict=True):
        period = data.schema.angles.get(name)
        gap = _median_gap(column if period is None else column % period, period)
        states.append(gap if period is None else 2 * np.sin(np.pi * gap / period))
    return np.array(states), np.array([_median_gap(column) for column in data.actions.numpy().T])


def step_length(data: Transitions) -> FloatArray:
    """Return the median length of a step of each state column, angles as chords, shape (d_s,)."""
    squared = (data.next_features - data.features).square()
    total = torch.zeros(len(squared), len(data.schema.states), dtype=torch.float64)
    total.index_add_(1, torch.tensor(data.schema.feature_columns), squared)
    return np.asarray(np.median(total.sqrt().numpy(), axis=0))


def _median_gap(column: FloatArray, period: float | None = None) -> float:
    values = np.sort(column)
    resolution = _SAME_LEVEL * (period or values[-1] - values[0])
    gaps = np.diff(values)
    if period is not None:
        gaps = np.append(gaps, values[0] + period - values[-1])
    gaps = gaps[gaps > resolution]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _spread(values: FloatArray, weights: FloatArray, columns: IntArray) -> FloatArray:
    """Return the weighted deviation of each column (c,), the same for those that share a bandwidth."""
    center = np.average(values, axis=0, weights=weights)
    variance = np.average(np.square(values - center), axis=0, weights=weights)
    return np.sqrt(np.bincount(columns, variance) / np.bincount(columns))[columns]
