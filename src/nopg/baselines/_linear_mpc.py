"""Linear model-predictive control: the best actions within bounds over some steps of a linear fit."""

from __future__ import annotations

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._typing import FloatArray
from nopg.baselines._regulator import NO_REGULATOR, LinearQuadraticFit
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError

# Of the alternating directions method: steps at most, and where it ends in units of the logged deviations.
_MOST_STEPS, _ACCURACY = 2_000, 1e-7


class LinearMPC:
    """The first action of a plan over a horizon that costs least by a linear model and a quadratic reward.

    The plan lasts `horizon` steps within bounds, then the regulator of the fit goes on. The quadratic program
    is solved by the alternating directions method of multipliers, for all states at once.

    Args:
        data: The log.
        discount: γ.
        horizon: Steps of a plan.

    Attributes:
        low: Lowest actions, shape (d_a,): the declared bound, else the least logged action.
        high: Highest, shape (d_a,).
    """

    def __init__(self, data: Transitions, discount: float, *, horizon: int = 20) -> None:
        if horizon < 1:
            raise ArgumentError(f"horizon is {horizon}; give at least 1")
        gamma, fit = check_discount(discount), LinearQuadraticFit.of(data)
        solved = fit.solve(gamma) if fit else None
        if fit is None or solved is None:
            raise DataError(NO_REGULATOR)
        self._schema, self._horizon, names = data.schema, horizon, data.schema.actions
        logged = zip(data.actions.amin(dim=0).tolist(), data.actions.amax(dim=0).tolist(), strict=True)
        bounds = [data.schema.bounds.get(name, ends) for name, ends in zip(names, logged, strict=True)]
        self.low, self.high = np.array(bounds).T
        (self._s, self._a), (self._s_unit, self._a_unit) = (
            np.split(part, [data.states.shape[1]]) for part in (fit.center, fit.unit)
        )
        self._hessian, self._linear = _condensed(fit, solved[1], gamma, horizon)
        ends = np.stack([(end - self._a) / self._a_unit for end in (self.low, self.high)])
        self._box = np.tile(ends, (1, horizon))
        values, vectors = np.linalg.eigh(self._hessian)
        self._rho = float(np.sqrt(values[0] * values[-1]))
        self._inverse = (vectors / values) @ vectors.T
        self._step = (vectors / (values + self._rho)) @ vectors.T

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return actions (m, d_a) at raw states (m, d_s)."""
        return torch.as_tensor(self.plan(states)[:, 0])

    def plan(self, states: torch.Tensor) -> FloatArray:
        """Return the planned actions (m, horizon, d_a) from raw states (m, d_s)."""
        turned = self._schema.decode(self._schema.encode(states.double())).numpy()
        x = (turned - self._s) / self._s_unit
        v = self._solve(np.concatenate([np.ones((len(x), 1)), x], axis=1) @ self._linear.T)
        return np.clip(self._a + self._a_unit * v.reshape(len(x), self._horizon, -1), self.low, self.high)

    def _solve(self, linear: FloatArray) -> FloatArray:
        """Return the minima (m, k) of ½vᵀHv + qᵀv in the box, for q (m, k)."""
        low, high = self._box
        found: FloatArray = -linear @ self._inverse
        rows = np.flatnonzero(((found < low) | (found > high)).any(axis=1))
        q, z = linear[rows], np.clip(found[rows], low, high)
        y = np.zeros_like(z)
        for _ in range(_MOST_STEPS):
            if not len(rows):
                break
            w = (self._rho * (z - y) - q) @ self._step
            after = np.clip(w + y, low, high)
            y += w - after
            moved = np.maximum(np.abs(w - after).max(axis=1), np.abs(after - z).max(axis=1))
            z = after
            if (done := moved < _ACCURACY).any():
                found[rows[done]] = z[done]
                rows, q, z, y = rows[~done], q[~done], z[~done], y[~done]
        found[rows] = z
        return found


def _condensed(
    fit: LinearQuadraticFit, P: FloatArray, gamma: float, horizon: int
) -> tuple[FloatArray, FloatArray]:
    """Return H (k, k) and G (k, 1 + d_s): a plan v from x costs ½vᵀHv + (G(1, x))ᵀv and a constant."""
    d, d_a = fit.B.shape
    size = d + horizon * d_a
    # (1, x) at a step as a linear map of the first (1, x) and of the plan.
    now, Q = np.eye(d, size), np.zeros((size, size))
    for t in range(horizon):
        action = np.eye(d_a, size, d + t * d_a)
        both = np.vstack([now, action])
        Q += 2 * gamma**t * both.T @ fit.cost @ both
        now = fit.F @ now + fit.B @ action
    Q += 2 * gamma**horizon * now.T @ P @ now
    return (Q[d:, d:] + Q[d:, d:].T) / 2, Q[d:, :d]
