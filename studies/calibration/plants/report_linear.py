"""Report plants that are linear, or nearly so in the range of their logs."""

from __future__ import annotations

import numpy as np

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant, end_stop

__all__ = ["LINEAR_PLANTS"]


def _room_rates(x: Array, u: Array) -> Array:
    air, wall, outdoor = x.T
    to_wall, to_outdoor = 0.25 * (air - wall), 0.03 * (air - outdoor)
    return np.stack(
        [
            (u[:, 0] - to_wall - to_outdoor) / 0.5,
            (to_wall - 0.05 * (wall - outdoor)) / 4.0,
            (5.0 - outdoor) / 24.0,
        ],
        axis=1,
    )


_ROOM = Plant(
    name="room-heating",
    states={"air": "°C", "wall": "°C", "outdoor": "°C"},
    actions={"heater": ("kW", 0.0, 3.0)},
    rates=_room_rates,
    time_step=1 / 6,
    target=(21.0, 5.5 / 0.3, 5.0),
    trim=(0.25 * (21.0 - 5.5 / 0.3) + 0.03 * 16.0,),
    prices=(1.0, 0.0, 0.0),
    action_prices=(0.1,),
    start_low=(18.5, 17.0, 2.0),
    start_high=(22.5, 19.5, 8.0),
    process_noise=(0.03, 0.0, 0.25),
    sensor_noise=(0.05, 0.05, 0.1),
    proportional=((0.8, 0.0, 0.0),),
    integral=((0.08, 0.0, 0.0),),
    spread=(1.5, 0.0, 0.0),
    every=60,
)
"""Two thermal masses and a weather that is measured; rows every 10 minutes, set points of day and night."""


def _ship_rates(x: Array, u: Array) -> Array:
    _, yaw_rate, rudder = x.T
    return np.stack([yaw_rate, (0.1 * rudder - yaw_rate) / 20.0, (u[:, 0] - rudder) / 3.0], axis=1)


_SHIP = Plant(
    name="ship-heading",
    states={"course_error": "deg", "yaw_rate": "deg/s", "rudder": "deg"},
    actions={"rudder_command": ("deg", -35.0, 35.0)},
    rates=_ship_rates,
    time_step=2.0,
    target=(0.0, 0.0, 0.0),
    trim=(0.0,),
    prices=(0.01, 0.5, 0.0),
    action_prices=(0.002,),
    start_low=(-30.0, -0.5, -10.0),
    start_high=(30.0, 0.5, 10.0),
    process_noise=(0.0, 0.03, 0.0),
    limit=lambda x: end_stop(x, 0, 1, (-180.0, 180.0)),
    softness=8.0,
)
"""A ship by the model of Nomoto with a slow rudder, in waves."""


def _drive_rates(x: Array, u: Array) -> Array:
    twist, motor, load = x.T
    shaft = 20.0 * twist + 0.05 * (motor - load)
    return np.stack(
        [motor - load, (u[:, 0] - shaft - 0.02 * motor) / 0.05, (shaft - 0.1 * load) / 0.2], axis=1
    )


_DRIVE = Plant(
    name="drive-train",
    states={"twist": "rad", "motor_speed": "rad/s", "load_speed": "rad/s"},
    actions={"torque": ("N m", -4.0, 6.4)},
    rates=_drive_rates,
    time_step=0.02,
    target=(0.05, 10.0, 10.0),
    trim=(1.2,),
    prices=(0.0, 0.01, 0.05),
    action_prices=(0.02,),
    start_low=(-0.05, 6.0, 6.0),
    start_high=(0.15, 14.0, 14.0),
    sensor_noise=(0.003, 0.1, 0.1),
    hold=6,
    reach=0.7,
)
"""A motor and a load on a springy shaft; noisy sensors."""


def _tank_rates(x: Array, u: Array) -> Array:
    level, valve = x.T
    outflow = 0.01 * np.sqrt(np.maximum(level, 0.0))
    return np.stack([2e-4 * valve - outflow, (u[:, 0] - valve) / 5.0], axis=1)


_TANK = Plant(
    name="tank-with-valve",
    states={"level": "m", "valve": "%"},
    actions={"valve_command": ("%", 0.0, 100.0)},
    rates=_tank_rates,
    time_step=5.0,
    target=(1.0, 50.0),
    trim=(50.0,),
    prices=(10.0, 0.0),
    action_prices=(2e-4,),
    start_low=(0.7, 30.0),
    start_high=(1.3, 70.0),
    process_noise=(0.004, 0.0),
    sensor_noise=(0.004, 0.5),
    limit=lambda x: np.clip(x, (0.0, 0.0), (2.0, 100.0)),
    proportional=((120.0, 0.0),),
    integral=((4.0, 0.0),),
    spread=(0.2, 0.0),
    every=50,
)
"""A level with a valve of first order and free outflow, nearly linear in its range."""

LINEAR_PLANTS = (_ROOM, _SHIP, _DRIVE, _TANK)
