"""A baseline from the log alone: an ARX model, and two gains of a controller tuned on it by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
import torch

import nopg
from nopg.data._derive import rows_before
from nopg.errors import DataError
from studies.calibration.plants.laws import Array, Law

__all__ = ["TwoGains", "arx_two_gains"]

_ORDERS = (1, 2, 5, 10, 25)
_HELD_OUT, _RIDGE = 0.2, 1e-6
_SEGMENTS, _MOST_STEPS = 24, 400
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoGains:
    """u = trim + gains[0]·e + gains[1]·z within bounds, with e = set point − output.

    Attributes:
        kind: "pi": z is the sum of the errors so far, which stops at a bound; "feed-forward": z is the set
            point less its mean.
        gains: Shape (2,), or one pair for each episode, shape (m, 2).
        columns: Numbers of the columns of the output and of the set point.
        trim: Mean logged action.
        middle: Mean logged set point.
        bounds: Lowest and highest action.
    """

    kind: Literal["pi", "feed-forward"]
    gains: Array
    columns: tuple[int, int]
    trim: float
    middle: float
    bounds: tuple[float, float]

    def __call__(self, episodes: int, rng: np.random.Generator) -> Law:
        """Return the controller of this many episodes."""
        del rng
        total, (output, set_point), (low, high) = np.zeros(episodes), self.columns, self.bounds

        def act(measured: Array) -> Array:
            nonlocal total
            error = measured[:, set_point] - measured[:, output]
            other = total if self.kind == "pi" else measured[:, set_point] - self.middle
            asked = self.trim + self.gains[..., 0] * error + self.gains[..., 1] * other
            total = total + np.where((asked > low) & (asked < high), error, 0.0)
            return np.asarray(np.clip(asked, low, high))[:, None]

        return act


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Arx:
    """y′ = [1, y, …, y(−n), u, …, u(−n)]·slopes + noise.

    Attributes:
        order: n.
        slopes: Shape (2n + 3,).
        residuals: What the model missed in the log, shape (k,).
        error: Mean squared error on the last fifth of the rows.
    """

    order: int
    slopes: Array
    residuals: Array
    error: float

    @classmethod
    def of(cls, data: nopg.Transitions, output: str, order: int) -> _Arx:
        """Fit by least squares; the input and the output have as many lags."""
        late = data.derive(lags={output: order, data.schema.actions[0]: order})
        inputs, after = _regressors(late, output), late.next_states[:, data.schema.states.index(output)]
        known, aim = inputs.numpy(), after.numpy()
        split = int(len(aim) * (1 - _HELD_OUT))
        early = _least_squares(known[:split], aim[:split])
        missed = aim[split:] - known[split:] @ early
        slopes = _least_squares(known, aim)
        return cls(
            order=order, slopes=slopes, residuals=aim - known @ slopes, error=float(np.mean(missed**2))
        )


def arx_two_gains(data: nopg.Transitions, discount: float, *, output: str, set_point: str) -> TwoGains:
    """Return a controller with two gains that does best on an ARX model of the log.

    The order of the model is that with the smallest error on the last fifth of the rows. PI and proportional
    with feed-forward are simulated from logged states along logged set points, with noise drawn from the
    residuals, on a grid of gains that is refined twice. The reward must be a formula.

    Args:
        data: The log, without derived columns; one action.
        discount: γ.
        output: Name of the controlled column.
        set_point: Name of the column of its set point.
    """
    if data.reward_function is None or len(data.schema.actions) != 1:
        raise DataError(
            "the baseline needs a reward formula and a single action; see Transitions.with_reward"
        )
    models = [_Arx.of(data, output, order) for order in _ORDERS]
    model = min(models, key=lambda one: one.error)
    simulation = _Simulation.of(data, model, output, set_point, discount)
    return max((simulation.tuned(kind) for kind in ("pi", "feed-forward")), key=simulation.mean_return)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Simulation:
    """Segments of the log, played again by the model under other actions."""

    data: nopg.Transitions
    model: _Arx
    columns: tuple[int, int]
    discount: float
    rows: Array
    outputs: Array
    inputs: Array
    noise: Array

    @classmethod
    def of(
        cls, data: nopg.Transitions, model: _Arx, output: str, set_point: str, discount: float
    ) -> _Simulation:
        """Draw segments that lie in one episode each, longer than the lags of the model."""
        columns, n = tuple(data.schema.states.index(name) for name in (output, set_point)), model.order
        place = rows_before(data.continues.numpy())
        steps = min(_MOST_STEPS, int(place.max()) - n)
        ends = np.flatnonzero(place >= steps + n)
        rng = np.random.default_rng(0)
        begins = rng.choice(ends, _SEGMENTS) - steps
        before = begins[:, None] - np.arange(n + 1)
        return cls(
            data=data,
            model=model,
            columns=(columns[0], columns[1]),
            discount=discount,
            rows=begins[:, None] + np.arange(steps + 1),
            outputs=data.states.numpy()[before, columns[0]],
            inputs=data.actions.numpy()[before[:, 1:], 0],
            noise=rng.choice(model.residuals, (steps, _SEGMENTS)),
        )

    def tuned(self, kind: Literal["pi", "feed-forward"]) -> TwoGains:
        """Return the best controller of a kind."""
        actions, points = self.data.actions[:, 0].numpy(), self.data.states.numpy()[:, self.columns[1]]
        low, high = self.data.schema.bounds.get(
            self.data.schema.actions[0], (float(actions.min()), float(actions.max()))
        )
        error = points - self.data.states.numpy()[:, self.columns[0]]
        scale = (high - low) / float(error.std())
        first = np.geomspace(1e-3, 3.0, 9) * scale
        second = np.append(0.0, np.geomspace(1e-4, 0.1, 7)) * scale
        if kind == "feed-forward":
            second = np.linspace(-1.0, 1.0, 9) * (high - low) / float(np.ptp(points))
        controller = TwoGains(
            kind=kind,
            gains=np.zeros(2),
            columns=self.columns,
            trim=float(actions.mean()),
            middle=float(points.mean()),
            bounds=(low, high),
        )
        grid = [first, second]
        for _ in range(_ROUNDS):
            pairs = np.array(list(product(*grid)))
            best = pairs[int(self._returns(replace(controller, gains=pairs)).argmax())]
            controller = replace(controller, gains=best)
            grid = [_around(values, float(found)) for values, found in zip(grid, best, strict=True)]
        return controller

    def mean_return(self, controller: TwoGains) -> float:
        """Return the mean simulated return of one controller."""
        return float(self._returns(controller)[0])

    def _returns(self, controller: TwoGains) -> Array:
        """Return the mean simulated return (k,) of each pair of gains (k, 2)."""
        pairs = np.atleast_2d(controller.gains)
        count, (steps, segments) = len(pairs), self.noise.shape
        every = np.repeat(pairs, segments, axis=0)
        law = replace(controller, gains=every)(len(every), np.random.default_rng(0))
        outputs, inputs = np.tile(self.outputs, (count, 1)), np.tile(self.inputs, (count, 1))
        logged, total = self.data.states.numpy(), np.zeros(len(every))
        states = self._measured(logged, 0, count, outputs)
        reward = self.data.reward_function
        assert reward is not None
        for t in range(steps):
            action = law(states)
            inputs = np.concatenate([action, inputs], axis=1)
            known = np.concatenate([np.ones((len(every), 1)), outputs, inputs], axis=1)
            following = known @ self.model.slopes + np.tile(self.noise[t], count)
            outputs, inputs = np.column_stack([following, outputs[:, :-1]]), inputs[:, :-1]
            after = self._measured(logged, t + 1, count, outputs)
            step = reward(torch.as_tensor(states), torch.as_tensor(action), torch.as_tensor(after))
            total, states = total + self.discount**t * step.numpy(), after
        return np.asarray(total.reshape(count, segments).mean(axis=1))

    def _measured(self, logged: Array, step: int, count: int, outputs: Array) -> Array:
        """Return the columns as logged, with the simulated output."""
        states = np.tile(logged[self.rows[:, step]], (count, 1))
        states[:, self.columns[0]] = outputs[:, 0]
        return states


def _regressors(late: nopg.Transitions, output: str) -> torch.Tensor:
    """Return 1, the output with its lags and the action with its lags, newest first."""
    names, action = late.schema.states, late.schema.actions[0]

    def own(name: str) -> list[int]:
        return [k for k, column in enumerate(names) if column.startswith(f"{name}_lag")]

    ones = torch.ones(len(late), 1, dtype=torch.float64)
    outputs = late.states[:, [names.index(output), *own(output)]]
    return torch.cat([ones, outputs, late.actions, late.states[:, own(action)]], dim=1)


def _least_squares(known: Array, aim: Array) -> Array:
    """Return slopes by ridge regression in units of the columns; the constant is not held back."""
    spread = np.append(1.0, np.maximum(known[:, 1:].std(axis=0), 1e-12))
    scaled = known / spread
    penalty = _RIDGE * len(aim) * np.diag(np.append(0.0, np.ones(known.shape[1] - 1)))
    return np.asarray(np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ aim) / spread)


def _around(values: Sequence[float] | Array, found: float) -> Array:
    """Return a finer grid between the neighbours of the value that was found."""
    ordered = np.sort(np.asarray(values))
    place = int(np.abs(ordered - found).argmin())
    return np.linspace(ordered[max(place - 1, 0)], ordered[min(place + 1, len(ordered) - 1)], 7)
