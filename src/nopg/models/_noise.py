"""Residuals of one-step predictions as disturbances and noise of sensors, and states without the latter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import linalg, optimize
from torch import Tensor

from nopg._typing import BoolArray, FloatArray
from nopg.data import Transitions
from nopg.data._episodes import spaced_blocks
from nopg.models._known_columns import KnownColumns

if TYPE_CHECKING:
    from nopg.models._one_step import Prediction

Predict = Callable[[Tensor, Tensor], "Prediction"]
"""The prediction of a step at states (m, d_s) and actions (m, d_a)."""

# Rows that noise is estimated from.
_MOST_ROWS, _FEWEST_PAIRS = 4_000, 30
# A residual is a jump beyond this many standard deviations; normal noise has 3 in 10⁷ there.
_JUMP, _MANY_JUMPS = 5.0, 5e-3
# Standard deviation of normal noise over the median of its size.
_NORMAL = 1.4826
# Residuals are cut at this many standard deviations before they are correlated.
_CUT = 3.0
# Noise below this share of a column's variance has no effect on returns.
_SMALL_NOISE = 1e-2
# A column forgets its own past where its next value depends less on it: noise of its sensor is then no
# different from a disturbance.
_LEAST_MEMORY = 0.2
# Standard deviations of the correlation of unrelated residuals below which no sensor noise is seen.
_SIGNIFICANT = 3.0
# Around its first estimate, the share of sensors in the residuals is searched this far, with so many trials.
_SEARCHED, _TRIALS = 0.3, 8
# Disturbances are at least this share of what sensors add to a residual, as no model is exact.
_LEAST_DISTURBANCE = 0.01
# Rows that are predicted at once, by memory.
_ROWS_AT_ONCE = 20_000
# Steps that the filter looks back.
_LOOKED_BACK = 40
# Added to variances of the order of 1, so that the Riccati equation has a solution.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """What the residuals of one-step predictions consist of.

    A disturbance w stays in the plant, noise v of a sensor does not. With J = ∂s′/∂s, the residual of a step
    is w + v′ − Jv, so successive residuals have the covariance −JR, where R is that of v.
    """

    sensors: FloatArray  # standard deviation of the noise of each sensor, (d_s,)
    in_steps: FloatArray  # variance that it adds to the residual of each column, (d_s,)
    disturbances: FloatArray  # covariance of the disturbances, (d_s, d_s)
    factor: FloatArray  # Cholesky factor of their correlation
    jacobian: FloatArray  # mean of J over the log, (d_s, d_s)
    # Columns with rare large residuals, such as impacts. A rollout spreads them over places where none occur
    jumps: tuple[str, ...] = ()

    @classmethod
    def independent(cls, columns: int) -> Noise:
        """Return independent disturbances of the plant, seen by perfect sensors."""
        none, eye = np.zeros(columns), np.eye(columns)
        return cls(none, none, np.diag(none), eye, eye)

    @classmethod
    def of(cls, data: Transitions, predict: Predict, spread: Tensor, known: KnownColumns) -> Noise:
        """Return the noise of a log.

        Args:
            data: The log.
            predict: Returns the prediction of a step at states (m, d_s) and actions (m, d_a).
            spread: Standard deviation of each column's step, shape (d_s,).
            known: Columns that are not learned. With lags of measured columns, which hold sensor noise as
                well, no noise is ascribed to sensors.
        """
        rows, d_s = data.take(spaced_blocks(len(data), _MOST_ROWS)), len(spread)
        step = predict(rows.states, rows.actions)
        residuals = rows.schema.difference(rows.states, rows.next_states) - step.displacement
        residuals[:, torch.as_tensor(known.all)] = 0.0
        visible = residuals.square().mean(dim=0) > _SMALL_NOISE * spread.square()
        # From filtered states, charts leave less noise than is in the residuals of measured ones.
        size = step.noise.clamp(min=1e-300)
        size = size * (_NORMAL * (residuals.abs() / size).median(dim=0).values).clamp(min=1.0)
        jumps = ((residuals.abs() > _JUMP * size).double().mean(dim=0) > _MANY_JUMPS) & visible

        scale = torch.where(spread > 0, spread, 1.0)
        cut = residuals.clamp(min=-_CUT * size, max=_CUT * size) / scale
        J = torch.eye(d_s, dtype=torch.float64) + step.displacement_slope.mean(dim=0)[:, :d_s]
        J[known.all], J[:, known.all] = 0.0, 0.0  # such columns are seen as they are
        past = known.derived.by_state[known.past[known.num_measured :]]
        lagged = past[:, : known.num_measured].any()
        split = _Split(cut, J * scale / scale[:, None], rows.continues)
        R = np.zeros(d_s) if jumps.any() or lagged else split.sensors(visible.numpy())
        units = np.outer(scale, scale)
        return cls(
            sensors=np.sqrt(R) * scale.numpy(),
            in_steps=np.diag(split.of_sensors(R) * units).copy(),
            disturbances=split.disturbances(R) * units,
            factor=_correlation_factor(split.disturbances(R), split.total),
            jacobian=J.numpy(),
            jumps=tuple(data.schema.states[column] for column in jumps.nonzero()[:, 0].tolist()),
        )


class _Split:
    """Residuals e (n, d) of steps with J (d, d), to be divided into w + v′ − Jv."""

    def __init__(self, residuals: Tensor, J: Tensor, linked: Tensor) -> None:
        self._residuals, self.J, self._linked = residuals, J.numpy(), linked.double()
        self.total: FloatArray = (residuals.T @ residuals / len(residuals)).numpy()
        self._settled = linked & linked.roll(1) & linked.roll(2)

    def of_sensors(self, R: FloatArray) -> FloatArray:
        """Return the covariance (d, d) of v′ − Jv for variances (d,) of v."""
        return np.asarray(np.diag(R) + (self.J * R) @ self.J.T)

    def disturbances(self, R: FloatArray) -> FloatArray:
        """Return the covariance (d, d) that is left for w."""
        values, vectors = np.linalg.eigh(self.total - self.of_sensors(R))
        return np.asarray(vectors @ (np.maximum(values, 0.0)[:, None] * vectors.T))

    def sensors(self, visible: BoolArray) -> FloatArray:
        """Return the variances (d,) of v: the likeliest near those by successive residuals."""
        pairs = self._linked.nonzero()[:, 0]
        if len(pairs) < _FEWEST_PAIRS:
            return np.zeros(len(self.J))
        shared = -(self._residuals[pairs] * self._residuals[pairs - 1]).mean(dim=0).numpy()
        memory, total = np.diag(self.J), np.diag(self.total)
        seen = visible & (memory > _LEAST_MEMORY) & (shared > _SIGNIFICANT / len(pairs) ** 0.5 * total)
        most = total / (1.0 + memory**2)
        R = np.where(seen, np.minimum(shared / np.maximum(memory, _LEAST_MEMORY), most), 0.0)
        for column in np.flatnonzero(seen):
            unit = np.eye(len(R))[column] * most[column]
            rest, share = R - R * (unit > 0), R[column] / most[column]
            likeliest = optimize.minimize_scalar(
                lambda x, rest=rest, unit=unit: self._unlikeliness(rest + x * unit),
                bounds=(max(share - _SEARCHED, 0.0), min(share + _SEARCHED, 1.0)),
                method="bounded",
                options={"maxiter": _TRIALS, "xatol": 0.01},
            )
            R = rest + likeliest.x * unit
        return R

    def _unlikeliness(self, R: FloatArray) -> float:
        """Return twice the negative mean log-likelihood of the innovations, up to a constant."""
        scale = np.sqrt(np.maximum(np.diag(self.total), 1e-300))
        in_steps = np.diag(self.of_sensors(R))
        J, filtering = _steady_filter(self.J, self.disturbances(R), in_steps, R, scale)
        residuals = self._residuals / torch.as_tensor(scale)
        _, innovations = filtering.errors(residuals, torch.as_tensor(J), self._linked)
        some = innovations[self._settled].numpy()
        weighted = np.linalg.solve(filtering.ahead, some.T)
        return float(np.linalg.slogdet(filtering.ahead)[1] + (some.T * weighted).sum() / len(some))


@dataclass(frozen=True, slots=True, eq=False)
class SteadyFilter:
    """The filter of s′ = Js + w that sees y = s + v, in its steady state."""

    forgotten: FloatArray  # I − K, with the gain K, (d, d)
    ahead: FloatArray  # covariance of the innovations, (d, d)

    @classmethod
    def of(cls, J: FloatArray, disturbances: FloatArray, sensors: FloatArray) -> SteadyFilter:
        """Return the filter for covariances of w and v, in units in which they are of the order of 1."""
        eye = np.eye(len(J))
        Q, R = disturbances + _ROUNDING * eye, sensors + _ROUNDING * eye
        before = linalg.solve_discrete_are(J.T, eye, Q, R)
        return cls(eye - before @ np.linalg.inv(before + R), before + R)

    def errors(self, missed: Tensor, J: Tensor, linked: Tensor) -> tuple[Tensor, Tensor]:
        """Return the errors v (n, d) that the filter finds in measurements, and its innovations (n, d).

        The residuals (n, d) are of steps from measured states. J is (d, d), or (n, d, d) for that of every
        step. A row that continues the one before it is linked, 1, another one 0, shape (n,).
        """
        left, link = missed.new_tensor(self.forgotten).mT, linked[:, None]
        error = innovation = missed.new_zeros(missed.shape)
        for _ in range(_LOOKED_BACK):
            innovation = link * (missed + (J @ error[:, :, None])[:, :, 0]).roll(1, dims=0)
            error = innovation @ left
        return error, innovation


def filtered_states(data: Transitions, predict: Predict, noise: Noise, known: KnownColumns) -> Tensor:
    """Return the states (n, d_s) of a log by a Kalman filter.

    A fit on noisy states has slopes that are too small. The error of a filtered state does not depend on that
    state, nor on an action that was computed from measurements. The regression of the next measurement on
    filtered states and actions is therefore without that bias, also for a log in closed loop.
    """
    d_s = data.states.shape[1]
    scale = np.sqrt(noise.in_steps + np.diag(noise.disturbances))
    scale = np.where(scale > 0, scale, 1.0)
    _, filtering = _steady_filter(noise.jacobian, noise.disturbances, noise.in_steps, noise.sensors**2, scale)
    missed, slopes = torch.empty_like(data.states), data.states.new_empty(len(data), d_s, d_s)
    unit, eye = torch.as_tensor(scale), torch.eye(d_s, dtype=torch.float64)
    for some in torch.arange(len(data)).split(_ROWS_AT_ONCE):
        step = predict(data.states[some], data.actions[some])
        apart = data.schema.difference(data.states[some], data.next_states[some])
        missed[some] = (apart - step.displacement) / unit
        slopes[some] = eye + step.displacement_slope[:, :, :d_s] * unit / unit[:, None]
    missed[:, known.all], slopes[:, known.all] = 0.0, 0.0
    error, _ = filtering.errors(missed, slopes, data.continues.double())
    return data.states - error * unit


def _steady_filter(
    J: FloatArray, disturbances: FloatArray, in_steps: FloatArray, R: FloatArray, scale: FloatArray
) -> tuple[FloatArray, SteadyFilter]:
    """Return J and the filter in units (d,) of the residuals, with the variances (d,) R of v and in steps."""
    scaled = J * scale / scale[:, None]
    least = np.diag(_LEAST_DISTURBANCE * in_steps / scale**2)
    Q = disturbances / np.outer(scale, scale) + least
    return scaled, SteadyFilter.of(scaled, Q, np.diag(R / scale**2))


def _correlation_factor(covariance: FloatArray, total: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a correlation; a variance that is small in the total has none."""
    variance = np.diag(covariance)
    known = variance > _SMALL_NOISE * np.diag(total) + 1e-18
    deviation = np.sqrt(np.where(known, variance, 1.0))
    correlation = np.where(np.outer(known, known), covariance / np.outer(deviation, deviation), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(np.linalg.cholesky((1.0 - 1e-6) * correlation + 1e-6 * np.eye(len(variance))))
