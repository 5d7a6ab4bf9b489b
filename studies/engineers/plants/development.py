"""Development plants: settings of the rivals are chosen on these."""

from __future__ import annotations

import math

import numpy as np

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant

__all__ = ["DEVELOPMENT_PLANTS"]


def _tank_rates(x: Array, u: Array) -> Array:
    level, inflow = x.T
    out = 0.5 * np.sqrt(np.maximum(level, 0.0))
    return np.stack([(inflow - out) / 4.0, (u[:, 0] - inflow) / 3.0], axis=1)


_TANK = Plant(
    name="pumped-tank",
    states={"level": "dm", "inflow": "L/s"},
    actions={"pump": ("L/s", 0.0, 2.0)},
    rates=_tank_rates,
    time_step=2.0,
    target=(3.0, 0.5 * math.sqrt(3.0)),
    trim=(0.5 * math.sqrt(3.0),),
    prices=(1.0, 0.0),
    action_prices=(0.2,),
    start_low=(2.2, 0.6),
    start_high=(3.8, 1.1),
    process_noise=(0.02, 0.0),
    sensor_noise=(0.02, 0.01),
    limit=lambda x: np.clip(x, 0.0, (8.0, 2.0)),
    proportional=((0.4, 0.0),),
    integral=((0.02, 0.0),),
    spread=(0.8, 0.0),
    every=40,
)
"""A tank with free outflow and a pump that follows its command with a lag."""


def _motor_rates(x: Array, u: Array) -> Array:
    speed = x[:, 1]
    return np.stack([speed, 8.0 * u[:, 0] - 2.0 * speed - 2.0 * np.tanh(speed / 0.1)], axis=1)


_MOTOR = Plant(
    name="motor-with-friction",
    states={"angle": "rad", "speed": "rad/s"},
    actions={"voltage": ("V", -6.0, 6.0)},
    rates=_motor_rates,
    time_step=0.02,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.0),
    action_prices=(0.01,),
    start_low=(-1.0, -1.0),
    start_high=(1.0, 1.0),
    sensor_noise=(0.002, 0.02),
    limit=lambda x: np.clip(x, -50.0, 50.0),
    hold=5,
    reach=0.6,
)
"""A motor at 50 Hz that turns a load against viscous and dry friction."""

DEVELOPMENT_PLANTS = (_TANK, _MOTOR)
