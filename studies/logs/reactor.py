"""A stirred reactor at its unstable steady states, whose temperature follows set points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from studies.calibration.plants.laws import Array
from studies.engineers.plants.process import PROCESS_PLANTS
from studies.logs.controllers import Loop, moved

__all__ = ["REACTOR", "ReactorLog"]

_PLANT = next(plant for plant in PROCESS_PLANTS if plant.name == "unstable-reactor")
_SET_POINTS, _CHANGE = (342.0, 348.0), 1 / 40
_NOISE = (0.005, 0.3, 0.0)  # mol/L, K


@dataclass(frozen=True, kw_only=True, eq=False)
class ReactorLog(Loop):
    """Hold the temperature of the unstable reactor of `studies.engineers` at its set point by its jacket.

    Left alone, deviations grow by a factor of 1.12 to 1.19 in a row of 6 s. A set point uniform between 342
    and 348 K holds for 40 rows in the mean. Starts are at rest, with a new set point.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 3): concentration, temperature, set point."""
        temperature, set_point = rng.uniform(*_SET_POINTS, (2, count))
        return np.stack([_at_rest(temperature)[0], temperature, set_point], axis=1)

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return concentration, temperature and set point (m, 3); noise of .005 mol/L and of .3 K."""
        return hidden + rng.normal(size=hidden.shape) * _NOISE

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states 6 s later."""
        assert _PLANT.limit is not None
        after = _PLANT.limit(_PLANT.step(hidden[:, :2], actions))
        return np.column_stack([after, moved(hidden[:, 2], rng, _SET_POINTS, _CHANGE)])

    def resting(self, measured: Array) -> Array:
        """Return the jacket temperature (m,) that holds the temperature."""
        return _at_rest(measured[:, 1])[1]


def _at_rest(temperature: Array) -> tuple[Array, Array]:
    """Return the concentrations and the jacket temperatures that hold temperatures (m,).

    The rates are linear in concentration and jacket temperature, so two values of each give the zeros.
    """
    m = len(temperature)

    def rates(concentration: Array, jacket: Array) -> Array:
        return _PLANT.rates(np.stack([concentration, temperature], axis=1), jacket[:, None])

    zero, one = np.zeros(m), np.ones(m)
    empty, full = rates(zero, zero)[:, 0], rates(one, zero)[:, 0]
    concentration = empty / (empty - full)
    cold, warm = rates(concentration, zero)[:, 1], rates(concentration, one)[:, 1]
    return concentration, cold / (cold - warm)


REACTOR = ReactorLog(
    name="reactor",
    role="report",
    states={"concentration": "mol/L", "temperature": "K", "setpoint": "K"},
    actions=_PLANT.actions,
    discount=0.97,
    sizes=(500,),
    logged_steps=0,
    steps=300,
    reward="-(temperature - setpoint) ** 2 - 0.01 * (jacket_temperature - 310) ** 2",
    exogenous={"setpoint": "log"},
    interval=6.0,
    columns=(1, 2),
    gain=2.5,
    integral_steps=40.0,
    noise=1.5,
    gains=(1.0, 12.0, 12),
    times=(5.0, 200.0, 8),
)
"""One long log under a noisy PI controller; half an hour of control is 300 rows."""
