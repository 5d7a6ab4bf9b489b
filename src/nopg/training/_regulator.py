"""Least squares and LQR: a linear controller from a global linear fit and a quadratic fit of the reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.data import Schema, Transitions
from nopg.models import difference

__all__ = ["Regulator", "fit_regulator"]

_RIDGE = 1e-6
# Least curvature of the cost along any direction, as a share of the largest.
_LEAST_CURVATURE = 1e-4
_MOST_ROUNDS, _AT_REST = 5_000, 1e-10


@dataclass(frozen=True, slots=True)
class Regulator:
    """a = K s + k on raw states, angles within half a period of 0; within the logged range.

    Attributes:
        gain: K, shape (d_a, d_s).
        offset: k, shape (d_a,).
        low: Least logged actions, shape (d_a,).
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


def fit_regulator(data: Transitions, discount: float, *, caution: float = 0.0) -> Regulator | None:
    """Return the optimal regulator of linear dynamics and a concave quadratic reward fitted to the rows.

    None where every row ends the task or the Riccati recursion finds none.

    Args:
        data: The log.
        discount: γ.
        caution: Price of departing from a linear fit of the logged actions, relative to the largest curvature
            of the cost; a cautious regulator stays nearer to where the log has been.
    """
    w = np.ones(len(data)) if data.weights is None else data.weights.numpy()
    s, a = data.schema.decode(data.features).numpy(), data.actions.numpy()
    after = s + difference(data.schema, data.states, data.next_states).numpy()
    (S, mean, unit), (A, action_mean, action_unit) = _standardized(s, w), _standardized(a, w)
    going = ~data.terminated.numpy()
    if not going.any():
        return None
    X = np.concatenate([np.ones((len(S), 1)), S, A], axis=1)
    linear = _ridge(X[going], ((after - mean) / unit)[going], w[going])
    d, c = S.shape[1], A.shape[1]
    cost = _quadratic_cost(np.concatenate([S, A], axis=1), data.rewards.numpy(), w)
    logged = _ridge(X[:, : 1 + d], A, w)
    departing = np.concatenate([-logged.T, np.eye(c)], axis=1)
    cost = cost + caution * np.linalg.eigvalsh(cost[1:, 1:])[-1] * departing.T @ departing

    # The state is (1, s), so that set points and constant forces need no special case.
    F, B = np.zeros((d + 1, d + 1)), np.zeros((d + 1, c))
    F[0, 0], F[1:, 0], F[1:, 1:], B[1:] = 1.0, linear[0], linear[1 : 1 + d].T, linear[1 + d :].T
    K = _riccati(np.sqrt(discount) * F, np.sqrt(discount) * B, cost, d + 1)
    if K is None:
        return None
    gain = -(action_unit[:, None] * K[:, 1:]) / unit
    offset = action_mean - action_unit * K[:, 0] - gain @ mean
    return Regulator(
        torch.as_tensor(gain),
        torch.as_tensor(offset),
        data.actions.amin(dim=0),
        data.actions.amax(dim=0),
        data.schema,
    )


def _standardized(columns: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    mean = np.average(columns, axis=0, weights=w)
    unit = np.sqrt(np.average(np.square(columns - mean), axis=0, weights=w))
    unit = np.where(unit > 1e-12 * np.abs(columns).max(axis=0), unit, 1.0)
    return (columns - mean) / unit, mean, unit


def _ridge(X: FloatArray, Y: FloatArray, w: FloatArray) -> FloatArray:
    weighted = X * w[:, None]
    penalty = _RIDGE * w.sum() * np.eye(X.shape[1])
    solved: FloatArray = np.linalg.solve(weighted.T @ X + penalty, weighted.T @ Y)
    return solved


def _quadratic_cost(z: FloatArray, rewards: FloatArray, w: FloatArray) -> FloatArray:
    """Return the matrix of (1, z) in −r, its curvature made positive."""
    d = z.shape[1]
    one, other = np.triu_indices(d)
    q = _ridge(np.concatenate([np.ones((len(z), 1)), z, z[:, one] * z[:, other]], axis=1), rewards, w)
    H = np.zeros((d, d))
    H[one, other] = -q[1 + d :]
    values, vectors = np.linalg.eigh((H + H.T) / 2)
    least = _LEAST_CURVATURE * max(float(values.max()), 1e-12)
    cost = np.zeros((d + 1, d + 1))
    cost[1:, 1:] = (vectors * np.maximum(values, least)) @ vectors.T
    cost[0, 1:] = cost[1:, 0] = -q[1 : 1 + d] / 2
    return cost


def _riccati(F: FloatArray, B: FloatArray, cost: FloatArray, d: int) -> FloatArray | None:
    """Return the gain of the discounted problem; None where the recursion does not settle."""
    Q, N, R = cost[:d, :d], cost[:d, d:], cost[d:, d:]
    P = Q.copy()
    for _ in range(_MOST_ROUNDS):
        K: FloatArray = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ F + N.T)
        after = Q + F.T @ P @ F - (F.T @ P @ B + N) @ K
        after = (after + after.T) / 2
        if not np.isfinite(after).all():
            return None
        if np.abs(after - P).max() <= _AT_REST * np.abs(after).max():
            return K
        P = after
    return K
