"""Plants of the engineers' benchmark on which defaults and settings of rivals are chosen."""

from __future__ import annotations

import math

import numpy as np

from studies.plants.laws import Array
from studies.plants.plant import Plant


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


def _room_rates(x: Array, u: Array) -> Array:
    air, wall = x.T
    return np.stack(
        [(2.5 * u[:, 0] - 0.6 * (air - wall) - 0.05 * (air - 5.0)) / 2.0, (air - wall) * 0.03], axis=1
    )


_ROOM = Plant(
    name="drafty-room",
    states={"air": "°C", "wall": "°C"},
    actions={"heating": ("kW", 0.0, 1.0)},
    rates=_room_rates,
    time_step=3.0,
    target=(21.0, 21.0),
    trim=(0.32,),
    prices=(0.05, 0.0),
    action_prices=(1.0,),
    start_low=(18.0, 19.0),
    start_high=(23.0, 22.0),
    process_noise=(0.15, 0.02),
    sensor_noise=(0.5, 0.3),
    limit=lambda x: np.clip(x, -10.0, 60.0),
    proportional=((0.05, 0.0),),
    integral=((0.004, 0.0),),
    spread=(2.0, 0.0),
    every=40,
)
"""A heated room with walls that store heat; noisy sensors."""


def _ball_rates(x: Array, u: Array) -> Array:
    gap, speed = x.T
    pull = 9.81 * ((1.0 + u[:, 0]) * 10.0 / np.clip(gap, 2.0, 30.0)) ** 2
    return np.stack([100.0 * speed, 9.81 - pull - 0.5 * speed], axis=1)


_BALL = Plant(
    name="levitated-ball",
    states={"gap": "mm", "speed": "dm/s"},
    actions={"current": ("A", -0.6, 0.6)},
    rates=_ball_rates,
    time_step=0.005,
    substeps=4,
    target=(10.0, 0.0),
    trim=(0.0,),
    prices=(0.1, 0.0),
    action_prices=(1.0,),
    start_low=(9.0, -0.05),
    start_high=(11.0, 0.05),
    sensor_noise=(0.05, 0.005),
    limit=lambda x: np.clip(x, (2.0, -3.0), (30.0, 3.0)),
    proportional=((-0.2, -2.0),),
    integral=((-0.002, 0.0),),
    spread=(0.8, 0.0),
    every=40,
    dither=0.08,
)
"""A ball under a magnet, held at its unstable rest."""

_TOO_FULL = 5.4


def _holder_rates(x: Array, u: Array) -> Array:
    volume, feed = x.T
    return np.stack(
        [0.4 * (feed - 0.8 * np.sqrt(np.maximum(volume, 0.0) / 5.0)), (u[:, 0] - feed) / 4.0], axis=1
    )


_HOLDER = Plant(
    name="gas-holder",
    states={"volume": "m³", "feed": "m³/s"},
    actions={"valve": ("m³/s", 0.0, 2.0)},
    rates=_holder_rates,
    time_step=1.5,
    target=(5.0, 0.8),
    trim=(0.8,),
    prices=(1.0, 0.0),
    action_prices=(0.5,),
    start_low=(4.0, 0.5),
    start_high=(5.2, 1.1),
    process_noise=(0.05, 0.02),
    reward=lambda s, a, _: (
        -((s[:, 0] - 5.0) ** 2)
        - 0.5 * (a[:, 0] - 0.8) ** 2
        - 40.0 * np.maximum(s[:, 0] - _TOO_FULL, 0.0) ** 2
    ),
    limit=lambda x: np.clip(x, 0.0, (12.0, 2.0)),
    proportional=((0.5, 0.0),),
    integral=((0.03, 0.0),),
    spread=(0.6, 0.0),
    every=40,
)
"""A gas holder whose overfilling is dear; the feed follows the valve with a lag."""


def _stage_rates(x: Array, u: Array) -> Array:
    place, speed = x.T
    return np.stack([speed, 40.0 * u[:, 0] - 3.0 * speed - 8.0 * np.tanh(speed / 0.02) - 2.0 * place], axis=1)


_STAGE = Plant(
    name="linear-stage",
    states={"place": "cm", "speed": "cm/s"},
    actions={"force": ("N", -2.0, 2.0)},
    rates=_stage_rates,
    time_step=0.004,
    substeps=4,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(4.0, 0.0),
    action_prices=(0.02,),
    start_low=(-0.5, -0.5),
    start_high=(0.5, 0.5),
    sensor_noise=(0.001, 0.01),
    limit=lambda x: np.clip(x, (-10.0, -50.0), (10.0, 50.0)),
    proportional=((8.0, 0.4),),
    integral=((0.05, 0.0),),
    spread=(0.4, 0.0),
    every=80,
    dither=0.15,
)
"""A positioning stage at 250 Hz with friction and a weak spring."""


def _blend_rates(x: Array, u: Array) -> Array:
    level, warmth = x.T
    hot, cold = u.T
    inflow = hot + cold
    out = 0.6 * np.sqrt(np.maximum(level, 0.05))
    return np.stack(
        [
            0.5 * (inflow - out),
            (hot * (70.0 - warmth) + cold * (15.0 - warmth)) / np.maximum(2.0 * level, 0.2),
        ],
        axis=1,
    )


_OUT = 0.6 * math.sqrt(2.0)
_BLEND = Plant(
    name="blending-tank",
    states={"level": "dm", "warmth": "°C"},
    actions={"hot": ("L/s", 0.0, 1.0), "cold": ("L/s", 0.0, 1.0)},
    rates=_blend_rates,
    time_step=1.0,
    target=(2.0, 40.0),
    trim=(_OUT * 25.0 / 55.0, _OUT * 30.0 / 55.0),
    prices=(1.0, 0.01),
    action_prices=(0.5, 0.5),
    start_low=(1.5, 34.0),
    start_high=(2.5, 46.0),
    process_noise=(0.01, 0.2),
    sensor_noise=(0.02, 0.3),
    limit=lambda x: np.clip(x, (0.05, 10.0), (6.0, 75.0)),
    proportional=((0.2, 0.01), (0.2, -0.01)),
    integral=((0.01, 0.0005), (0.01, -0.0005)),
    spread=(0.4, 4.0),
    every=40,
)
"""Hot and cold water blended to a level and a temperature."""

DEVELOPMENT_PLANTS = (_TANK, _MOTOR, _ROOM, _BALL, _HOLDER, _STAGE, _BLEND)
