"""Least squares and LQR: linear feedback from a linear fit of the plant and a quadratic fit of the reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg, optimize

from nopg._typing import BoolArray, FloatArray
from nopg.data import Schema, Transitions
from nopg.data._bounds import action_limits
from nopg.data._derive import RewardFormula

NO_REGULATOR = "least squares find no linear model with a regulator; more rows may help"

# Of the regressions, per unit of weight, on standardised columns.
_RIDGE = 1e-6
# The reward is fitted around a set point, within this many standard deviations of the states; the first set
# point is among the rows of highest reward, this share of them.
_WIDTH, _BEST, _ROUNDS = 1.5, 0.1, 3
# Least curvature of the cost along a column, as a share of the largest: what a reward ignores may not drift.
_LEAST_OF_STATES, _LEAST_OF_ACTIONS = 1e-3, 1e-4
# The same in a stated reward, as a share of that: what it ignores costs nothing.
_NEGLIGIBLE = 1e-2


@dataclass(frozen=True, slots=True)
class Regulator:
    """a = gain·s + offset on raw states, angles within half a period of 0; within the limits of the actions.

    Attributes:
        gain: Shape (d_a, d_s).
        offset: Shape (d_a,).
        low: Least actions, shape (d_a,); see `action_limits`.
        high: Largest, shape (d_a,).
        schema: Which states are angles.
    """

    gain: torch.Tensor
    offset: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    schema: Schema

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return actions (m, d_a) at raw states (m, d_s)."""
        turned = self.schema.decode(self.schema.encode(states))
        return (turned @ self.gain.T + self.offset).clamp(self.low, self.high)


@dataclass(frozen=True, slots=True)
class LinearQuadraticFit:
    """Linear dynamics and a concave quadratic reward around a set point, fitted to a log.

    With z = (s, a) in standard deviations from the set point, the next state is A s + B a + drift and the
    reward falls by zᵀ C z + 2 cᵀ z. The set point, where the linear dynamics rest with the highest reward,
    is found in a few rounds, the first around the rows of highest reward.
    """

    F: FloatArray  # Of (1, s)′ = F (1, s) + B a with the drift in its first column, shape (1 + d_s, 1 + d_s)
    B: FloatArray  # Shape (1 + d_s, d_a)
    cost: FloatArray  # Of (1, z), shape (1 + d, 1 + d)
    logged: FloatArray  # The linear fit of the logged actions by (1, s), shape (d_a, 1 + d_s)
    center: FloatArray  # The set point in raw units, shape (d,)
    unit: FloatArray  # Standard deviations of states and actions, shape (d,)
    data: Transitions

    @classmethod
    def of(cls, data: Transitions, squares: RewardFormula | None = None) -> LinearQuadraticFit | None:
        """Return the fit; None where every row ends the task.

        Args:
            data: The log.
            squares: What the reward falls with; the stated reward by default.
        """
        w = np.ones(len(data)) if data.weights is None else data.weights.numpy()
        s, d_s = data.schema.decode(data.features).numpy(), data.states.shape[1]
        z, mean, unit = _standardized(np.concatenate([s, data.actions.numpy()], axis=1), w)
        steps = data.schema.difference(data.states, data.next_states).numpy() / unit[:d_s]
        going, rewards = ~data.terminated.numpy(), data.rewards.numpy()
        if not going.any():
            return None
        moves = _ridge(_with_one(z[going]), steps[going], w[going]).T
        best = _highest(rewards, w)
        center = np.average(z[best], axis=0, weights=w[best])
        low, high = z.min(axis=0), z.max(axis=0)
        for _ in range(_ROUNDS):
            cost = _quadratic_cost(z - center, rewards, w, d_s)
            drift = moves[:, 0] + moves[:, 1:] @ center
            rest = _best_rest(cost, np.column_stack([drift, moves[:, 1:]]), [0])
            center = np.clip(center + rest[:, 0], low, high)
        away = z - center
        drift = moves[:, 0] + moves[:, 1:] @ center
        F, B = np.eye(1 + d_s), np.zeros((1 + d_s, z.shape[1] - d_s))
        F[1:] += np.column_stack([drift, moves[:, 1 : 1 + d_s]])
        B[1:] = moves[:, 1 + d_s :]
        reward = data.reward_function or squares
        stated, moved = None, np.hstack([F, B])[1:]
        if reward is not None:
            stated = _stated_cost(data, reward, moved, mean + unit * center, unit, w=w)
        cost = _quadratic_cost(away, rewards, w, d_s) if stated is None else stated
        logged = _ridge(_with_one(away[:, :d_s]), away[:, d_s:], w)
        return cls(F, B, cost, logged.T, mean + unit * center, unit, data)

    def regulator(self, discount: float, *, caution: float = 0.0, price: float = 0.0) -> Regulator | None:
        """Return the optimal regulator of the fit; None where the Riccati recursion finds none.

        Args:
            discount: γ.
            caution: Price of departing from the linear fit of the logged actions, relative to the largest
                curvature of the cost; a cautious regulator stays nearer to where the log has been.
            price: Price of departing from the actions at which the plant rests under its set points, relative
                to the same.
        """
        d_s, d_a = self.data.states.shape[1], self.data.actions.shape[1]
        departing = np.concatenate([-self.logged, np.eye(d_a)], axis=1)
        largest = float(np.linalg.eigvalsh(self.cost[1:, 1:])[-1])
        moving = np.concatenate([-self._resting, np.eye(d_a)], axis=1)
        added = caution * departing.T @ departing + price * moving.T @ moving
        solved = self.solve(discount, self.cost + largest * added)
        if solved is None:
            return None
        K, _ = solved
        (s_0, a_0), (s_1, a_1) = np.split(self.center, [d_s]), np.split(self.unit, [d_s])
        gain = -(a_1[:, None] * K[:, 1:]) / s_1
        offset = a_0 - a_1 * K[:, 0] - gain @ s_0
        limits = action_limits(self.data)
        return Regulator(torch.as_tensor(gain), torch.as_tensor(offset), *limits, self.data.schema)

    @property
    def _resting(self) -> FloatArray:
        """The actions of least cost at which the plant rests, by (1, s), shape (d_a, 1 + d_s).

        They depend on the exogenous columns alone, such as set points.
        """
        schema, (width, d_a) = self.data.schema, self.B.shape
        given = [0, *(1 + k for k, name in enumerate(schema.states) if name in schema.exogenous)]
        own = [k for k in range(width) if k not in given]
        steps = np.concatenate([self.F - np.eye(width), self.B], axis=1)
        actions = np.zeros((d_a, width))
        actions[:, given] = _best_rest(self.cost, steps[own], given)[len(own) :]
        return actions

    def solve(self, discount: float, cost: FloatArray | None = None) -> tuple[FloatArray, FloatArray] | None:
        """Return K and P of the optimal a = −K (1, s), whose cost is (1, s)ᵀ P (1, s); None if there is none.

        The cost of (1, z) is that of the fit by default.
        """
        cost = self.cost if cost is None else cost
        F, B = (np.sqrt(discount) * part for part in (self.F, self.B))
        Q, N, R = cost[: len(F), : len(F)], cost[: len(F), len(F) :], cost[len(F) :, len(F) :]
        try:
            P = linalg.solve_discrete_are(F, B, Q, R, s=N)
        except (np.linalg.LinAlgError, ValueError):  # "Reordering … failed" of an ill-conditioned pencil
            return None
        return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ F + N.T), P


def _standardized(columns: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    mean = np.average(columns, axis=0, weights=w)
    unit = np.sqrt(np.average(np.square(columns - mean), axis=0, weights=w))
    unit = np.where(unit > 1e-12 * np.abs(columns).max(axis=0), unit, 1.0)
    return (columns - mean) / unit, mean, unit


def _with_one(columns: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(columns), 1)), columns], axis=1)


def _highest(rewards: FloatArray, w: FloatArray) -> BoolArray:
    """Return which rows have the highest rewards, as many as make up a share of the weight."""
    down = np.argsort(-rewards, kind="stable")
    last = np.searchsorted(np.cumsum(w[down]), _BEST * w.sum())
    return np.asarray(rewards >= rewards[down[min(int(last), len(down) - 1)]])


def _ridge(X: FloatArray, Y: FloatArray, w: FloatArray) -> FloatArray:
    """Return coefficients of a weighted ridge regression; the first input, the constant, is free."""
    weighted = X * w[:, None]
    penalty = np.full(X.shape[1], _RIDGE * w.sum())
    penalty[0] = 0.0
    solved: FloatArray = np.linalg.solve(weighted.T @ X + np.diag(penalty), weighted.T @ Y)
    return solved


def _quadratic_cost(z: FloatArray, rewards: FloatArray, w: FloatArray, d_s: int) -> FloatArray:
    """Return the matrix of (1, z) in −r around z = 0, its curvature made positive."""
    d = z.shape[1]
    near = w * np.exp(-0.5 * np.square(z[:, :d_s]).mean(axis=1) / _WIDTH**2)
    one, other = np.triu_indices(d)
    q = _ridge(_with_one(np.concatenate([z, z[:, one] * z[:, other]], axis=1)), rewards, near)
    C = np.zeros((d, d))
    C[one, other] = -q[1 + d :]
    values, vectors = np.linalg.eigh((C + C.T) / 2)
    values = np.maximum(values, 0.0)
    cost = _least(d_s, d, float(values.max()))
    cost[1:, 1:] += (vectors * values) @ vectors.T
    cost[0, 1:] = cost[1:, 0] = -q[1 : 1 + d] / 2
    return cost


def _stated_cost(
    data: Transitions,
    reward: RewardFormula,
    steps: FloatArray,
    center: FloatArray,
    unit: FloatArray,
    *,
    w: FloatArray,
) -> FloatArray | None:
    """Return the matrix of (1, z) in Σ k e² of the errors e in a stated reward; None where it has none.

    Errors are what the formula takes squares, magnitudes or other functions of, such as `level - goal`; their
    weights k ≥ 0 fit the logged rewards best. Those of `next(level)` are taken a step ahead, by the steps of
    z_s′ from (1, z), shape (d_s, 1 + d).
    """
    d_s, d = data.states.shape[1], len(center)
    values = reward.columns(data.states, data.actions, data.next_states)
    # Columns are linear in (s, a, s′): the same sums of the rows of (1, z) that these are, are theirs.
    own, first = unit[:, None] * np.eye(1 + d)[1:], np.eye(1 + d)[0]
    own, after = own + center[:, None] * first, unit[:d_s, None] * steps + center[:d_s, None] * first
    parts = (torch.as_tensor(one.T) for one in (own[:d_s], own[d_s:], after))
    rows = reward.columns(*parts, turn=False)
    errors, squares = list[FloatArray](), list[FloatArray]()
    for constant, factors in reward.errors:
        errors.append(constant * first + sum(k * rows[name].numpy() for name, k in factors.items()))
        seen = constant + sum(k * values[name].numpy() for name, k in factors.items())
        squares.append(np.square(seen))
    if not errors:
        return None
    E, X = np.stack(errors), np.stack(squares, axis=1)
    size, rewards, root = np.maximum(X.mean(axis=0), 1e-300), data.rewards.numpy(), np.sqrt(w)
    X = np.concatenate([np.ones((len(X), 1)), -np.ones((len(X), 1)), X / size], axis=1)
    weights = optimize.nnls(X * root[:, None], (rewards.max() - rewards) * root)[0][2:] / size
    cost: FloatArray = np.einsum("k,ki,kj->ij", weights, E, E)
    largest = float(np.diag(cost)[1 : 1 + d_s].max())
    return cost + _NEGLIGIBLE * _least(d_s, d, largest) if largest > 0 else None


def _least(d_s: int, d: int, largest: float) -> FloatArray:
    """Return the least curvature of the cost of (1, z)."""
    each = np.repeat([0.0, _LEAST_OF_STATES, _LEAST_OF_ACTIONS], [1, d_s, d - d_s])
    return np.diag(each * (largest or 1.0))


def _best_rest(cost: FloatArray, steps: FloatArray, given: list[int]) -> FloatArray:
    """Return the part of (1, z) of least cost at which steps (k, 1 + d) of it are 0, by the given part."""
    free, k = [one for one in range(len(cost)) if one not in given], len(steps)
    cost = cost / (np.abs(cost[1:, 1:]).max() or 1.0)  # the unit of the reward is none of the dynamics
    system = np.block([[2 * cost[np.ix_(free, free)], steps[:, free].T], [steps[:, free], np.zeros((k, k))]])
    right = -np.concatenate([2 * cost[np.ix_(free, given)], steps[:, given]])
    solved: FloatArray = np.linalg.lstsq(system, right, rcond=1e-9)[0][: len(free)]
    return solved
