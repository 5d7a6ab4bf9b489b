"""PI control by a tuning rule: a first-order plant with a delay from the log, then the SIMC rule."""

from __future__ import annotations

import json
import math
from shlex import quote
from typing import NamedTuple

import numpy as np

from nopg._expressions import Expression, quoted
from nopg.baselines._regulator import LinearQuadraticFit
from nopg.data import Transitions
from nopg.data._derive import lag_name, rows_before
from nopg.errors import DataError
from nopg.policies import ControlStructure, FormulaPolicy
from nopg.policies._formula import gain_name

_MOST_DELAY = 30


class FirstOrderPlant(NamedTuple):
    """y′ = y + (1 − exp(−1/time_constant))·(gain·u(t − delay) − y) + a constant, times in steps."""

    gain: float  # K, change of the output at rest per unit of the input
    time_constant: float  # τ
    delay: int  # θ, beside the step that any input takes; it stands for further lags too

    @classmethod
    def of(cls, data: Transitions, output: str, action: str) -> FirstOrderPlant:
        """Fit by least squares, with the delay of least error; a plant that does not settle is slow."""
        k, j = data.schema.states.index(output), data.schema.actions.index(action)
        y, u = data.states[:, k].numpy(), data.actions[:, j].numpy()
        place = rows_before(data.continues.numpy())
        longest = min(_MOST_DELAY, int(place.max()))
        rows = np.flatnonzero(place >= longest)
        steps, fits = data.next_states[:, k].numpy()[rows] - y[rows], []
        for delay in range(longest + 1):
            known = np.stack([y[rows], u[rows - delay], np.ones(len(rows))], axis=1)
            slopes, *_ = np.linalg.lstsq(known, steps, rcond=None)
            fits.append((float(np.square(steps - known @ slopes).mean()), delay, *slopes[:2].tolist()))
        _, delay, decay, by_input = min(fits)
        decay = min(max(-decay, 1e-3), 0.999)  # one step to a thousand
        return cls(by_input / decay, -1.0 / math.log1p(-decay), delay)

    def tuned(self) -> tuple[float, float]:
        """Return K_c and τ_I by the SIMC rule (Skogestad, 2003): K_c = τ/(2Kθ), τ_I = min(τ, 8θ).

        The delay θ counts half a step for sampling, and the closed loop is to be as fast as the delay.
        """
        late = self.delay + 0.5
        return self.time_constant / (2 * self.gain * late), min(self.time_constant, 8 * late)


def simc_gains(structure: ControlStructure, data: Transitions) -> dict[str, float]:
    """Return the gains of a PI or PID controller by the SIMC rule; none of an action without effect."""
    found, schema = dict[str, float](), data.schema
    for action, (output, _) in structure.loops(schema).items():
        plant = FirstOrderPlant.of(data, output, action)
        if plant.gain != 0.0:
            kp, steps = plant.tuned()
            found[gain_name("kp", action, schema)] = kp
            found[gain_name("ki", action, schema)] = kp / (steps * (schema.interval or 1.0))
    return found


def simc(
    data: Transitions, *, output: str | None = None, set_point: str | float | None = None
) -> FormulaPolicy:
    """Return PI control in velocity form by the SIMC rule, of a log with one action and the row before.

    Actions stay within their bounds, so that the integral cannot wind up; see `ControlStructure`.

    Args:
        data: The log; `data.derive(lags={output: 1, set_point: 1, action: 1})` adds the lags.
        output: Name of the controlled state. By default the only one that an action may move; of
            several, without exogenous columns, the one that the reward depends on most.
        set_point: Name of the state with its set point, or a number. By default the only exogenous
            column; without one, where the output rests with the highest reward, by `LinearQuadraticFit`.
    """
    schema, (action, *others) = data.schema, data.schema.actions
    if others:
        raise DataError(f"there are {1 + len(others)} actions; a PI controller by the SIMC rule has one")
    output, set_point = _loop(data, output, set_point)
    structure, own = ControlStructure("pi", {output: set_point}), f"{output}_target_lag1"
    law, points = structure.formulas(schema, {}).actions[action], [output, action]
    before = repr(set_point)
    if isinstance(set_point, str):
        before = quoted(lag_name(set_point, 1))
        points.insert(1, set_point)
    if own not in schema.states:  # a column that trainings of the structure add
        law = law.replace(quoted(own), before)
    if missing := [
        name for name in Expression(law).names if name.endswith("_lag1") and name not in schema.states
    ]:
        lags = dict.fromkeys(points, 1)
        options = " ".join(f"--set {quote(f'lags.{json.dumps(name)}=1')}" for name in lags)
        raise DataError(
            f"a PI controller by the SIMC rule needs the row before, but the log has no "
            f"{', '.join(missing)}; add them with data.derive(lags={lags}), or nopg fit … {options}"
        )
    if not (gains := simc_gains(structure, data)):
        raise DataError(f"{action!r} does not move {output!r} in this log; the rule needs a gain")
    limits = schema.bounds.get(action) or (float(data.actions.min()), float(data.actions.max()))
    return FormulaPolicy(schema, {action: law}, gains, limits)


def _loop(data: Transitions, output: str | None, set_point: str | float | None) -> tuple[str, str | float]:
    """Return the controlled state and its set point, found in the log where they are not given."""
    schema = data.schema
    moved, exogenous = [name for name in schema.measured if name not in schema.exogenous], [*schema.exogenous]
    if exogenous:
        output = moved[0] if output is None and len(moved) == 1 else output
        set_point = exogenous[0] if set_point is None and len(exogenous) == 1 else set_point
    elif (output is None or set_point is None) and (fit := LinearQuadraticFit.of(data)):
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
