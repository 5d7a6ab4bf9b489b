"""Report plants that move, switch or have modes of very different speed."""

from __future__ import annotations

import numpy as np

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant

__all__ = ["MOTION_PLANTS"]


def _servo_rates(x: Array, u: Array) -> Array:
    speed = x[:, 1]
    return np.stack([speed, 150.0 * u[:, 0] - 5.0 * speed - 30.0 * np.tanh(speed / 0.05)], axis=1)


_SERVO = Plant(
    name="servo-500hz",
    states={"position": "rad", "speed": "rad/s"},
    actions={"current": ("A", -1.0, 1.0)},
    rates=_servo_rates,
    time_step=0.002,
    substeps=4,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.0),
    action_prices=(0.02,),
    start_low=(-0.6, -1.0),
    start_high=(0.6, 1.0),
    sensor_noise=(5e-4, 0.02),
    limit=lambda x: np.clip(x, (-20.0, -200.0), (20.0, 200.0)),
    proportional=((4.0, 0.15),),
    integral=((0.02, 0.0),),
    spread=(0.5, 0.0),
    every=100,
    dither=0.15,
)
"""A position servo at 500 Hz; Coulomb friction takes a fifth of the largest torque."""


def _coil_rates(x: Array, u: Array) -> Array:
    current, coil, body = x.T
    resistance = 1.0 + 0.004 * (coil - 20.0)
    return np.stack(
        [
            (u[:, 0] - resistance * current) / 0.05,
            0.5 * current**2 - 0.4 * (coil - body),
            0.02 * (coil - body) - 0.01 * (body - 20.0),
        ],
        axis=1,
    )


_COIL_CURRENT = float(np.sqrt(8.0))
_COIL = Plant(
    name="heating-coil",
    states={"current": "A", "coil": "°C", "body": "°C"},
    actions={"voltage": ("V", 0.0, 8.0)},
    rates=_coil_rates,
    time_step=0.5,
    substeps=10,
    target=(_COIL_CURRENT, 50.0, 40.0),
    trim=(1.12 * _COIL_CURRENT,),
    prices=(0.0, 0.0, 0.04),
    action_prices=(0.05,),
    start_low=(2.0, 42.0, 35.0),
    start_high=(3.7, 58.0, 45.0),
    process_noise=(0.02, 0.05, 0.02),
    limit=lambda x: np.clip(x, (-10.0, 0.0, 0.0), (20.0, 300.0, 200.0)),
    hold=20,
    reach=0.8,
)
"""A coil that heats a body: time constants of .05, 2.5 and 33 s at a sample time of .5 s."""


def _split_range_rates(x: Array, u: Array) -> Array:
    jacket, product = x.T
    asked = u[:, 0]
    heat = 3.0 * np.maximum(asked - 0.1, 0.0) - 1.5 * np.maximum(-asked - 0.1, 0.0)
    return np.stack([heat - 0.05 * (jacket - 20.0), 0.1 * (jacket - product)], axis=1)


_SPLIT_RANGE = Plant(
    name="split-range-jacket",
    states={"jacket": "°C", "product": "°C"},
    actions={"valve": ("", -1.0, 1.0)},
    rates=_split_range_rates,
    time_step=2.0,
    target=(24.0, 24.0),
    trim=(0.1 + 0.2 / 3.0,),
    prices=(0.0, 0.05),
    action_prices=(0.3,),
    start_low=(18.0, 19.0),
    start_high=(30.0, 29.0),
    process_noise=(0.1, 0.05),
    limit=lambda x: np.clip(x, -20.0, 120.0),
    hold=15,
    reach=0.4,
)
"""A jacket with a heating and a cooling valve on one signal: a dead zone, and half the gain when cooling."""

MOTION_PLANTS = (_SERVO, _COIL, _SPLIT_RANGE)
