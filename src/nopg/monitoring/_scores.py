"""One-step predictions against measurements, in units in which held-out rows of the log are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._support import FitVariance, unknown_share
from nopg._typing import BoolArray, FloatArray
from nopg.data._episodes import spaced_blocks
from nopg.errors import DataError
from nopg.models import LocalModel
from nopg.models._excitation import Excitation, noise_share

# Errors below this share of a column's usual step are of no interest.
_FLOOR = 1e-3
# Rows of the log that are predicted without their group.
_MOST_ROWS = 5_000
# Rows before from which an error is predicted, and the penalty on the coefficients per row.
LAGS, _RIDGE = 2, 0.01
# Scores are cut here before they enter a regression or a mean.
_LARGEST_SCORE = 5.0
# Where the model is exact, held-out scores count as this large.
_LEAST_SCORE = 0.01
# Neighbours whose mean error tells the bias of the model, and the quantile of it to allow for.
_NEIGHBORS, _QUANTILE = 20, 0.99
# What else to allow for: standard errors of a prediction, and of the mean of all held-out rows. The first was
# chosen on development plants (`python -m studies monitor`).
_DOUBT, _DEVIATIONS = 0.75, 2.0

OUTSIDE = 0.01
"""A row with a larger unknown share lies outside the log: the plant is not tested there."""
# So does one at which slopes that the log does not show make a larger error than this share of a state's
# usual step, and a larger one than all else. Smaller ones matter little, and count in the scale.
_OPEN = 0.1

Row = tuple[Tensor, Tensor, Tensor, Tensor]
"""States (m, d_s), actions (m, d_a), rewards (m,) and next states (m, d_s)."""


class Scores(NamedTuple):
    """Rows in units of the model's error; c tested columns: the state columns that vary, then the reward."""

    predicted: FloatArray  # next states and reward, (m, d_s + 1)
    unknown: FloatArray  # share of each (s, a) outside the log, (m,)
    outside: BoolArray  # whether the log shows too little to test the plant there, (m,)
    scale: FloatArray  # size of an ordinary error, (m, c)
    doubt: FloatArray  # standard error of the prediction among models of parts of the log, over the scale
    by_slopes: FloatArray  # the same by slopes that the log does not show, on which all its parts agree
    z: FloatArray  # measured less predicted, over the scale
    # z by which a fault of size 1 would show: an offset of each column, the relative gain of each action, the
    # offset of each sensor, (m, c + d_a + d_s, c).
    shifts: FloatArray


def slope_errors(model: LocalModel) -> Callable[[FloatArray], FloatArray]:
    """Return a function of inputs (d, m): standard deviations (m, d_s + 1) from slopes the log does not show.

    Parts of the log agree on a slope that none of them shows, as where actions always followed the states, so
    the spread of models of such parts does not tell its error. Slopes count as known as far as a polynomial
    over the whole log, with the noise that the model leaves, would show them.
    """
    spread, designs = model.rows.spread[: model.num_states + 1].numpy(), dict[int, FitVariance]()
    for charts in model.steps.blocks:
        for place, column in enumerate(charts.columns):
            if column >= len(spread):
                continue
            if charts.shape.is_local:
                excitation = Excitation.of(charts.rows)
                noise = charts.noise[:, place].square().mean().sqrt()
                share = noise_share(noise, charts.rows.spread[column])
            else:
                excitation = Excitation.of(charts.rows, charts.shape.global_degree)
                share = charts.unexplained[place]
            designs[column] = excitation.variance(excitation.uncertainty(torch.atleast_1d(share)))

    def errors(x: FloatArray) -> FloatArray:
        variance = np.zeros((x.shape[1], len(spread)))
        for column, one in designs.items():
            variance[:, column] = one.at(x, slopes=False)[0]
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)) * spread)

    return errors


class Scorer:
    """Scores rows by the model that trained a controller; calibrated on rows that it has not seen.

    Each row of the log is predicted from the other groups of episodes. What an error owes to those of the
    two rows before, as sensor noise makes it, is taken off by a regression on these rows. `columns` are those
    tested, d_s is the reward; `usual` and `typical` standard deviation and median size of held-out scores,
    `reference` and `sizes` these scores, whitened and sorted by column, with and without signs.
    """

    def __init__(self, model: LocalModel) -> None:
        rows, data = model.rows, model.data
        if rows.num_groups < 2:
            raise DataError("the log has a single row; a monitor needs rows to calibrate its test on")
        self.model, d_s = model, model.num_states
        tested = rows.spread[: d_s + (model.reward_function is None)] > 0
        tested[:d_s] &= ~torch.as_tensor(model.steps.known.all)
        self.columns = tested.nonzero()[:, 0].tolist()
        self.names = [(*data.schema.states, "reward")[k] for k in self.columns]
        self._reward_noise, self._slope_errors = 0.0, slope_errors(model)
        self._without = model.without_groups()
        chosen = spaced_blocks(len(data), _MOST_ROWS)
        log = data.take(chosen)
        steps: Row = (log.states, log.actions, log.rewards, log.next_states)
        part = 1 + rows.groups[rows.copies[chosen]]
        first = self.score(steps, part)
        if d_s in self.columns:
            errors = first.z[:, -1] * first.scale[:, -1]
            self._reward_noise = 1.4826 * float(np.median(np.abs(errors)))
            first = self.score(steps, part)
        linked = log.continues.numpy()
        self._lags = _autoregression(first.z, linked)
        self.usual = np.maximum(first.z.std(axis=0), _LEAST_SCORE)
        self.typical = np.maximum(np.median(np.abs(first.z), axis=0), _LEAST_SCORE)
        r = self.whiten(first.z, linked)
        self._bias = _bias(r, rows.space.embed(rows.inputs)[rows.copies[chosen]], part)
        self._largest = np.quantile(np.abs(r), _QUANTILE, axis=0)
        self.reference, self.sizes = np.sort(r, axis=0), np.sort(np.abs(r), axis=0)

    def score(self, rows: Row, part: Tensor | None = None) -> Scores:
        """Return the scores of rows by the model of all rows, or without some group (m,) of the log."""
        model, (s, a, r, after) = self.model, rows
        d_s, m = model.num_states, len(s)
        x = torch.cat([s, a], dim=1).T.numpy()
        source = model if part is None else self._without
        out, slopes = source.steps.step(x, None if part is None else part.numpy())
        halves, _ = model.steps.step(
            np.tile(x, model.num_parts - 1),
            np.arange(1, model.num_parts).repeat(m),
            slopes=False,
            noise=False,
        )
        apart = halves[: d_s + 1].reshape(d_s + 1, -1, m) - out[: d_s + 1, None]
        moves = torch.as_tensor(out[:d_s].T)
        reward = out[d_s]
        if model.reward_function is not None:
            reward = model.reward_function(s, a, s + moves).detach().double().numpy()
        missed = model.data.schema.difference(s + moves, after.clone()).numpy()
        errors = np.column_stack([missed, r.numpy() - reward])
        of_states = np.sqrt(out[-1 - d_s : -1].T ** 2 + model.noise.in_steps)
        noise = np.column_stack([of_states, np.full(m, self._reward_noise)])
        spread = model.rows.spread[: d_s + 1].numpy()
        floor = _FLOOR * spread
        doubt, by_slopes = np.sqrt(np.square(apart).mean(axis=1).T), self._slope_errors(x)
        ordinary = np.maximum(np.sqrt(noise**2 + doubt**2 + floor**2), _OPEN * spread)
        scale = np.sqrt(noise**2 + np.maximum(doubt, by_slopes) ** 2 + floor**2)[:, self.columns]
        unknown = unknown_share(out[-1])
        slope = slopes[self.columns].transpose(2, 1, 0) / scale[:, None]  # (m, d, c)
        slope[..., [k == d_s for k in self.columns]] = 0.0  # computed from commands and measurements
        offsets = np.eye(len(self.columns))[None].repeat(m, axis=0)
        shifts = np.concatenate([offsets, slope[:, d_s:] * a.numpy()[:, :, None], -slope[:, :d_s]], axis=1)
        return Scores(
            predicted=np.column_stack([(s + moves).numpy(), reward]),
            unknown=unknown,
            outside=(unknown >= OUTSIDE) | (by_slopes > ordinary)[:, :d_s].any(axis=1),
            scale=scale,
            doubt=doubt[:, self.columns] / scale,
            by_slopes=by_slopes[:, self.columns] / scale,
            z=errors[:, self.columns] / scale,
            shifts=shifts,
        )

    def whiten(self, values: FloatArray, linked: BoolArray) -> FloatArray:
        """Return values (m, …, c) less what those of the rows before predict; see `Transitions.continues`."""
        out = values.copy()
        for before, coefficients in zip(_lagged(values, linked), self._lags, strict=True):
            out -= before @ coefficients
        return out

    def allowance(self, scores: Scores) -> FloatArray:
        """Return the mean score (m, c) that the model's own error may cause at each row."""
        # Held-out errors bound the first; they do not tell of slopes that the log does not show.
        of_parts = np.minimum(_DOUBT * scores.doubt, self._largest)
        at_place = np.maximum(np.maximum(of_parts, _DOUBT * scores.by_slopes), self._bias)
        return np.asarray(at_place + _DEVIATIONS / np.sqrt(len(self.reference)))

    def ranks(self, r: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ranks in ±1 of whitened scores (m, c) among held-out rows, the allowance taken off.

        For errors upwards, errors downwards, and their size. Under no change each has a mean of at most 0 in
        its direction.
        """
        return _rank(self.reference, r - b), _rank(self.reference, r + b), _rank(self.sizes, np.abs(r) - b)


def _rank(reference: FloatArray, values: FloatArray) -> FloatArray:
    """Return 2F − 1 of values (m, c), F the distribution of sorted columns (n, c), ties by half."""
    sides = (
        [np.searchsorted(*column, side=side) for column in zip(reference.T, values.T, strict=True)]
        for side in ("left", "right")
    )
    return np.asarray(sum(np.column_stack(one) for one in sides) / len(reference) - 1.0)


def _lagged(values: FloatArray, linked: BoolArray) -> list[FloatArray]:
    """Return the values one row before, two rows before, …; 0 where the sequence began later."""
    found, before, goes_on = list[FloatArray](), values, np.ones(len(values), dtype=bool)
    for _ in range(LAGS):
        goes_on = linked & np.concatenate([[True], goes_on[:-1]])
        before = np.concatenate([np.zeros_like(values[:1]), before[:-1]])
        found.append(np.where(goes_on.reshape(-1, *[1] * (values.ndim - 1)), before, 0.0))
    return found


def _autoregression(z: FloatArray, linked: BoolArray) -> list[FloatArray]:
    """Return coefficients (c, c) of each lag by a ridge regression of scores on those before."""
    cut = np.clip(z, -_LARGEST_SCORE, _LARGEST_SCORE)
    x, c = np.concatenate(_lagged(cut, linked), axis=1), z.shape[1]
    gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1]) + 1e-9 * np.eye(x.shape[1])
    found = np.linalg.solve(gram, x.T @ cut)
    return [found[lag * c : (lag + 1) * c] for lag in range(LAGS)]


def _bias(r: FloatArray, points: Tensor, groups: Tensor) -> FloatArray:
    """Return the largest mean error at a place, less what is chance, shape (c,).

    Errors at neighbours in other groups have the bias of the model in common, and not the noise.
    """
    cut = np.clip(r, -_LARGEST_SCORE, _LARGEST_SCORE)
    K = min(4 * _NEIGHBORS, len(r))
    near = torch.as_tensor(cKDTree(points.numpy()).query(points.numpy(), k=K)[1]).reshape(len(r), K)
    own = (groups[near] == groups[:, None]).numpy()
    values = np.where(own[:, :, None], np.nan, cut[near.numpy()])
    count = np.minimum((~own).sum(axis=1), _NEIGHBORS)
    keep = (np.cumsum(~own, axis=1) <= _NEIGHBORS) & ~own
    values = np.where(keep[:, :, None], values, 0.0)
    some = count >= 2
    if not some.any():
        return np.zeros(r.shape[1])
    mean = values[some].sum(axis=1) / count[some, None]
    square = np.square(values[some]).sum(axis=1) / count[some, None]
    chance = (square - mean**2) / (count[some, None] - 1)
    total = np.square(mean).mean(axis=0)
    share = np.maximum(total - chance.mean(axis=0), 0.0) / np.maximum(total, 1e-300)
    return np.asarray(np.sqrt(share) * np.quantile(np.abs(mean), _QUANTILE, axis=0))
