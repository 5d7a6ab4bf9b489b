"""Least squares and a linear quadratic regulator: what a control engineer tries first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nopg import Transitions
from studies.plants import Controller

__all__ = ["least_squares_lqr"]

Array = npt.NDArray[np.float64]

_RIDGE = 1e-6  # of both regressions, per row, on standardised columns
_WIDTH = 1.5  # of the reward's neighbourhood, in standard deviations of the states
_BEST = 0.1  # share of rows, those of highest reward, around which the first neighbourhood lies
_STATE_WEIGHT, _ACTION_WEIGHT = 1e-3, 1e-4  # least curvature of the reward, as shares of the greatest
_ROUNDS, _ITERATIONS = 3, 5_000


@dataclass(frozen=True, slots=True)
class _Columns:
    """States and actions in standard deviations from their means, angles within half a turn of zero."""

    state_mean: Array
    state_scale: Array
    action_mean: Array
    action_scale: Array
    periods: Array

    @classmethod
    def of(cls, data: Transitions) -> _Columns:
        periods = np.array([data.schema.angles.get(name, np.inf) for name in data.schema.states])
        states, actions = _wrapped(data.states.numpy(), periods), data.actions.numpy()
        return cls(states.mean(0), _spread(states), actions.mean(0), _spread(actions), periods)

    def states(self, states: Array) -> Array:
        return (_wrapped(states, self.periods) - self.state_mean) / self.state_scale

    def actions(self, actions: Array) -> Array:
        return (actions - self.action_mean) / self.action_scale

    def steps(self, data: Transitions) -> Array:
        moved = data.next_states.numpy() - data.states.numpy()
        return _wrapped(moved, self.periods) / self.state_scale


def least_squares_lqr(data: Transitions, discount: float) -> Controller:
    """Return the regulator of a linear model of the plant and a quadratic model of the reward.

    The displacement of the state is fitted by ridge regression on state and action over all rows, the reward
    by a quadratic around the set point, made concave. The set point is the resting state of the linear model
    with the highest reward, found in a few rounds, the first around the rows of highest reward. Every column
    has a small weight of its own, so that a reward that ignores a column does not let it drift. The
    discounted Riccati equation gives the feedback; actions are clipped to the logged range.

    Args:
        data: The transitions.
        discount: γ.
    """
    columns = _Columns.of(data)
    z, u = columns.states(data.states.numpy()), columns.actions(data.actions.numpy())
    dynamics = _regress(
        np.column_stack([z, u, np.ones(len(z))]), columns.steps(data)
    ).T  # (d_s, d_s + d_a + 1)
    rewards, weights = data.rewards.numpy(), data.weights
    shares = np.ones(len(z)) if weights is None else weights.numpy()

    best = rewards >= np.quantile(rewards, 1 - _BEST)
    centre = np.concatenate([z[best].mean(0), u[best].mean(0)])
    both = np.column_stack([z, u])
    lowest, highest = both.min(0), both.max(0)
    for _ in range(_ROUNDS):
        hessian, slope = _local_quadratic(z, u, rewards, shares, centre)
        step = _resting_optimum(hessian, slope, dynamics, centre)
        centre = np.clip(centre + step, lowest, highest)
    hessian, slope = _local_quadratic(z, u, rewards, shares, centre)

    gain, offset = _regulator(dynamics, hessian, slope, centre, discount)
    low, high = data.actions.numpy().min(0), data.actions.numpy().max(0)
    d_s = z.shape[1]

    def act(observations: Array) -> Array:
        away = columns.states(np.atleast_2d(observations)) - centre[:d_s]
        asked = centre[d_s:] + away @ gain.T + offset
        clipped = np.clip(columns.action_mean + columns.action_scale * asked, low, high)
        return np.asarray(clipped.reshape(*np.shape(observations)[:-1], -1))

    return act


def _local_quadratic(z: Array, u: Array, rewards: Array, shares: Array, centre: Array) -> tuple[Array, Array]:
    """Return the curvature (d, d), not positive, and the slope (d,) of the reward around a centre."""
    x = np.column_stack([z, u]) - centre
    d_s, d = z.shape[1], x.shape[1]
    near = shares * np.exp(-0.5 * (x[:, :d_s] ** 2).mean(1) / _WIDTH**2)
    i, j = np.triu_indices(d)
    coefficients = _regress(np.column_stack([x, x[:, i] * x[:, j], np.ones(len(x))]), rewards[:, None], near)[
        :, 0
    ]
    slope, curvature = coefficients[:d], np.zeros((d, d))
    curvature[i, j] = coefficients[d:-1]
    curvature = curvature + curvature.T

    values, vectors = np.linalg.eigh(curvature)
    concave = (vectors * np.minimum(values, 0.0)) @ vectors.T
    greatest = -float(np.minimum(values, 0.0).min()) or 1.0
    least = np.concatenate([np.full(d_s, _STATE_WEIGHT), np.full(d - d_s, _ACTION_WEIGHT)]) * greatest
    return concave - np.diag(least), slope


def _resting_optimum(hessian: Array, slope: Array, dynamics: Array, centre: Array) -> Array:
    """Return the step (d,) from the centre to the best point at which the linear model rests."""
    linear, constant = dynamics[:, :-1], dynamics[:, -1]
    size, rest = len(hessian), len(linear)
    system = np.block([[hessian, linear.T], [linear, np.zeros((rest, rest))]])
    right = np.concatenate([-slope, -(constant + linear @ centre)])
    return np.asarray(np.linalg.lstsq(system, right, rcond=1e-9)[0][:size])


def _regulator(
    dynamics: Array, hessian: Array, slope: Array, centre: Array, discount: float
) -> tuple[Array, Array]:
    """Return gain (d_a, d_s) and offset (d_a,) around the centre, by the discounted Riccati equation.

    The state carries a constant 1, so that linear terms of the reward and the drift at the centre count.
    """
    d_s = len(dynamics)
    drift = dynamics[:, -1] + dynamics[:, :-1] @ centre
    a = np.eye(d_s + 1)
    a[:d_s, :d_s] += dynamics[:, :d_s]
    a[:d_s, d_s] = drift
    b = np.vstack([dynamics[:, d_s:-1], np.zeros((1, dynamics.shape[1] - 1 - d_s))])

    q = np.zeros((d_s + 1, d_s + 1))
    q[:d_s, :d_s] = hessian[:d_s, :d_s] / 2
    q[:d_s, d_s] = q[d_s, :d_s] = slope[:d_s] / 2
    cross = np.vstack([hessian[:d_s, d_s:], slope[None, d_s:]]) / 2  # between state and action
    r = hessian[d_s:, d_s:] / 2

    value, gain = np.zeros_like(q), np.zeros((b.shape[1], d_s + 1))
    for _ in range(_ITERATIONS):
        bent = r + discount * b.T @ value @ b
        tilt = cross.T + discount * b.T @ value @ a
        gain, last = -np.linalg.solve(bent, tilt), gain
        value = q + discount * a.T @ value @ a + tilt.T @ gain
        value = (value + value.T) / 2
        if np.abs(gain - last).max() <= 1e-10 * (1 + np.abs(gain).max()):
            break
    return gain[:, :d_s], gain[:, d_s]


def _regress(inputs: Array, targets: Array, shares: Array | None = None) -> Array:
    """Return coefficients (p, t) of a weighted ridge regression; the last input, the constant, is free."""
    shares = np.ones(len(inputs)) if shares is None else shares
    weighted = inputs * shares[:, None]
    penalty = np.full(inputs.shape[1], _RIDGE * float(shares.sum()))
    penalty[-1] = 0.0
    return np.asarray(np.linalg.solve(weighted.T @ inputs + np.diag(penalty), weighted.T @ targets))


def _wrapped(values: Array, periods: Array) -> Array:
    turns = np.where(np.isfinite(periods), np.round(values / periods), 0.0)
    return np.asarray(values - np.where(turns == 0, 0.0, turns * np.where(turns == 0, 1.0, periods)))


def _spread(values: Array) -> Array:
    spread = values.std(0)
    return np.asarray(np.where(spread > 0, spread, 1.0))
