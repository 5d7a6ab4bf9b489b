"""A heated tank whose temperature follows set points that change every few minutes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from studies.calibration.plants.laws import Array
from studies.logs.controllers import Loop, moved

__all__ = ["HEATED_TANK", "HeatedTank"]

_AMBIENT, _GAIN = 20.0, 6.0  # °C, K/kW at rest
_TANK, _ELEMENT = 300.0, 15.0  # time constants in s, of a tank filled to 1 m and of the heating element
_STEP, _SUBSTEPS = 10.0, 5
_SET_POINTS, _CHANGE = (40.0, 60.0), 1 / 40
_NOISE = 0.2  # K


@dataclass(frozen=True, kw_only=True, eq=False)
class HeatedTank(Loop):
    """Hold the temperature of a tank at its set point with an electric heater of 0 to 10 kW.

    With the level h, which other parts of the plant move, and the power p of the element:

        300 s · h · Ṫ = −(T − 20 °C) + 6 K/kW · p,    15 s · ṗ = heater − p

    The power of the element is hidden. The level wanders by .1 m around 1 m. A set point uniform between 40
    and 60 °C holds for 40 rows of 10 s in the mean. Starts are at rest, with a new set point.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 4): temperature, level, set point, power of the element."""
        temperature, set_point = rng.uniform(*_SET_POINTS, (2, count))
        level = 1.0 + 0.1 * rng.normal(size=count)
        return np.stack([temperature, level, set_point, (temperature - _AMBIENT) / _GAIN], axis=1)

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return temperature, level and set point (m, 3); noise of .2 K and of 5 mm."""
        noise = rng.normal(size=(len(hidden), 2)) * (_NOISE, 0.005)
        return np.column_stack([hidden[:, :2] + noise, hidden[:, 2]])

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states 10 s later."""
        temperature, level, set_point, power = hidden.T
        dt = _STEP / _SUBSTEPS
        for _ in range(_SUBSTEPS):
            power = power + dt / _ELEMENT * (actions[:, 0] - power)
            heating = _GAIN * power - (temperature - _AMBIENT)
            temperature = temperature + dt / (_TANK * level) * heating
        m = len(hidden)
        level = np.clip(level + 0.02 * (1.0 - level) + 0.02 * rng.normal(size=m), 0.5, 1.5)
        set_point = moved(set_point, rng, _SET_POINTS, _CHANGE)
        return np.stack([temperature, level, set_point, power], axis=1)

    def resting(self, measured: Array) -> Array:
        """Return the power (m,) that holds the temperature."""
        return np.asarray((measured[:, 0] - _AMBIENT) / _GAIN)


HEATED_TANK = HeatedTank(
    name="heated-tank",
    role="report",
    states={"temperature": "degC", "level": "m", "setpoint": "degC"},
    actions={"heater": ("kW", 0.0, 10.0)},
    discount=0.98,
    sizes=(500, 5_000),
    logged_steps=0,
    steps=360,
    reward="-(temperature - setpoint) ** 2 - 0.01 * heater ** 2",
    exogenous={"level": "log", "setpoint": "log"},
    interval=_STEP,
    columns=(0, 2),
    gain=0.3,
    integral_steps=40.0,
    noise=0.8,
    gains=(0.3, 100.0, 14),
    times=(8.0, 500.0, 8),
    lags={"heater": 2, "temperature": 1},
)
"""One long log under a noisy PI controller; an hour of control is 360 rows."""
