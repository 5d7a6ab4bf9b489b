"""PI control by a tuning rule: a first-order plant with a delay from the log, then the SIMC rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

import numpy as np
import torch

from nopg.baselines._regulator import LinearQuadraticFit
from nopg.data import Schema, Transitions
from nopg.data._derive import lag_name, rows_before
from nopg.errors import ArgumentError, DataError

_MOST_DELAY = 30


class FirstOrderPlant(NamedTuple):
    """y′ = y + (1 − exp(−1/time_constant))·(gain·u(t − delay) + rest − y), times in steps.

    Attributes:
        gain: K, change of the output at rest per unit of the input.
        time_constant: τ.
        delay: θ, beside the step that any input takes.
        rest: The output at rest with input 0.
    """

    gain: float
    time_constant: float
    delay: int
    rest: float

    @classmethod
    def of(cls, data: Transitions, output: str, action: str) -> FirstOrderPlant:
        """Fit by least squares, with the delay of least error; a plant that does not settle is slow.

        Args:
            data: The log.
            output: Name of the state.
            action: Name of the action that moves it.
        """
        k, j = data.schema.states.index(output), data.schema.actions.index(action)
        y, after, u = (
            part.numpy() for part in (data.states[:, k], data.next_states[:, k], data.actions[:, j])
        )
        rows, place = np.arange(len(y)), rows_before(data.continues.numpy())
        longest = min(_MOST_DELAY, int(place.max()))
        fits = []
        kept = place >= longest
        for delay in range(longest + 1):
            known = np.stack([y[kept], u[rows[kept] - delay], np.ones(int(kept.sum()))], axis=1)
            slopes, *_ = np.linalg.lstsq(known, after[kept] - y[kept], rcond=None)
            error = float(np.square(after[kept] - y[kept] - known @ slopes).mean())
            fits.append((error, delay, *slopes.tolist()))
        _, delay, decay, by_input, constant = min(fits)
        decay = min(max(-decay, 1e-3), 0.999)  # one step to a thousand
        return cls(by_input / decay, -1.0 / math.log1p(-decay), delay, constant / decay)

    def tuned(self) -> tuple[float, float]:
        """Return K_c and τ_I by the SIMC rule (Skogestad, 2003): K_c = τ/(2Kθ), τ_I = min(τ, 8θ).

        The delay θ counts half a step for sampling, and the closed loop is to be as fast as the delay.
        """
        late = self.delay + 0.5
        return self.time_constant / (2 * self.gain * late), min(self.time_constant, 8 * late)


@dataclass(frozen=True, slots=True)
class PIRule:
    """PI control in velocity form, tuned by a rule from a log: what was applied last, and a change.

        u = u_last + K_c·(e − e_last + e/τ_I),    e = set point − output

    within the bounds of the action, so that the integral cannot wind up; see `FirstOrderPlant.tuned`.

    Attributes:
        schema: Columns of the states that it acts on.
        output: Name of the controlled state.
        set_point: Name of its set point, or a number.
        action: Name of the action.
        gain: K_c.
        integral_time: τ_I in steps.
        bounds: Lowest and highest action.
        plant: What was identified; None where gains were given.
    """

    schema: Schema
    output: str
    set_point: str | float
    action: str
    gain: float
    integral_time: float
    bounds: tuple[float, float]
    plant: FirstOrderPlant | None = None

    @classmethod
    def of(
        cls,
        data: Transitions,
        *,
        output: str | None = None,
        set_point: str | float | None = None,
        action: str | None = None,
    ) -> PIRule:
        """Return the controller of a log with lags of the output, the set point and the action.

        Args:
            data: The log; `data.derive(lags={output: 1, set_point: 1, action: 1})` adds the lags.
            output: Name of the controlled state. By default the only one that an action may move; of
                several, without exogenous columns, the one that the reward depends on most.
            set_point: Name of the state with its set point, or a number. By default the only exogenous
                column; without one, where the output rests with the highest reward, by `LinearQuadraticFit`.
            action: Name of the action; the only one if absent.
        """
        names = data.schema.actions
        if action is None and len(names) > 1:
            raise ArgumentError(
                f"there are {len(names)} actions; say which one moves the output: {list(names)}"
            )
        moved = action or names[0]
        output, set_point = _loop(data, output, set_point)
        points = (set_point,) if isinstance(set_point, str) else ()
        before = (_target_before(data.schema, output, point) for point in points)
        needed = [output, *points, lag_name(output, 1), *before, lag_name(moved, 1)]
        if missing := [name for name in needed if name not in data.schema.states]:
            lags = dict.fromkeys((output, *points, moved), 1)
            options = " ".join(f"--lags {quote(f'{name}=1')}" for name in lags)
            raise DataError(
                f"a PI controller by the SIMC rule needs the row before, but the log has no "
                f"{', '.join(missing)}; add them with data.derive(lags={lags}), or nopg fit … {options}"
            )
        plant = FirstOrderPlant.of(data, output, moved)
        if plant.gain == 0:
            raise DataError(f"{moved!r} does not move {output!r} in this log; the rule needs a gain")
        column = data.actions[:, names.index(moved)]
        bounds = data.schema.bounds.get(moved, (float(column.min()), float(column.max())))
        return cls(data.schema, output, set_point, moved, *plant.tuned(), bounds, plant)

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return actions (m, 1) at states (m, d_s) with their lags."""
        error, before = (self._error(states, late) for late in (False, True))
        last = self._column(states, lag_name(self.action, 1))
        asked = last + self.gain * (error - before + error / self.integral_time)
        return asked.clamp(*self.bounds)[:, None]

    def _error(self, states: torch.Tensor, late: bool) -> torch.Tensor:
        aim: torch.Tensor | float
        if isinstance(self.set_point, str):
            before = _target_before(self.schema, self.output, self.set_point)
            aim = self._column(states, before if late else self.set_point)
        else:
            aim = self.set_point
        return aim - self._column(states, lag_name(self.output, 1) if late else self.output)

    def _column(self, states: torch.Tensor, name: str) -> torch.Tensor:
        return states[:, self.schema.states.index(name)]


def _loop(data: Transitions, output: str | None, set_point: str | float | None) -> tuple[str, str | float]:
    """Return the controlled state and its set point, found in the log where they are not given."""
    if output is not None and set_point is not None:
        return output, set_point
    schema = data.schema
    moved, exogenous = [name for name in schema.measured if name not in schema.exogenous], [*schema.exogenous]
    if exogenous:
        output = moved[0] if output is None and len(moved) == 1 else output
        set_point = exogenous[0] if set_point is None and len(exogenous) == 1 else set_point
    elif fit := LinearQuadraticFit.of(data):
        prices = dict(zip(schema.states, fit.cost.diagonal()[1:], strict=False))
        output = max(moved, key=lambda name: prices[name]) if output is None else output
        rests = dict(zip(schema.states, fit.center.tolist(), strict=False))
        set_point = rests.get(output) if set_point is None else set_point
    if output is None or set_point is None:
        raise DataError(
            f"a PI controller needs an output and its set point; of the columns {', '.join(moved)} may be "
            f"moved, {', '.join(exogenous) or 'none'} exogenous: give output and set_point"
        )
    return output, set_point


def _target_before(schema: Schema, output: str, set_point: str) -> str:
    """Return the name of the set point one row before; `ControlStructure` has its own column of it."""
    own = f"{output}_target_lag1"
    return own if own in schema.states else lag_name(set_point, 1)
