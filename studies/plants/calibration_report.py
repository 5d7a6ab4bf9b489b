"""Plants of the calibration study for the report alone: four nearly linear ones, five that are not."""

from __future__ import annotations

import numpy as np

from studies.plants.laws import Array
from studies.plants.plant import Plant, end_stop


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


def _valve_rates(x: Array, u: Array) -> Array:
    level, valve = x.T
    outflow = 0.01 * np.sqrt(np.maximum(level, 0.0))
    return np.stack([2e-4 * valve - outflow, (u[:, 0] - valve) / 5.0], axis=1)


_TANK = Plant(
    name="tank-with-valve",
    states={"level": "m", "valve": "%"},
    actions={"valve_command": ("%", 0.0, 100.0)},
    rates=_valve_rates,
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


def _magnet_rates(x: Array, u: Array) -> Array:
    gap, velocity, current = x.T
    pull = 10.0 * np.maximum(current, 0.0) / np.clip(gap, 2.0, 20.0)
    return np.stack([velocity, 9810.0 * (1.0 - pull**2), (u[:, 0] - 5.0 * current) / 0.05], axis=1)


_MAGNET = Plant(
    name="magnetic-levitation",
    states={"gap": "mm", "velocity": "mm/s", "current": "A"},
    actions={"voltage": ("V", 0.0, 12.0)},
    rates=_magnet_rates,
    time_step=0.004,
    target=(10.0, 0.0, 1.0),
    trim=(5.0,),
    prices=(0.1, 1e-5, 0.0),
    action_prices=(0.005,),
    start_low=(9.0, -20.0, 0.9),
    start_high=(11.0, 20.0, 1.1),
    sensor_noise=(0.02, 1.0, 0.005),
    reward=lambda s, a, _: (
        1.0 - (s - (10.0, 0.0, 1.0)) ** 2 @ np.array((0.1, 1e-5, 0.0)) - 0.005 * (a[:, 0] - 5.0) ** 2
    ),
    terminal=lambda x: (x[:, 0] <= 5.0) | (x[:, 0] >= 15.0),
    dither=0.05,
)
"""A ball below a magnet; the task ends when it falls or sticks. Noisy sensors."""


def _chemostat_rates(x: Array, u: Array) -> Array:
    biomass, substrate = np.maximum(x, 0.0).T
    growth = 0.5 * substrate / (0.5 + substrate + 0.1 * substrate**2)
    return np.stack(
        [(growth - u[:, 0]) * biomass, u[:, 0] * (10.0 - substrate) - growth * biomass / 0.5], axis=1
    )


_CHEMOSTAT = Plant(
    name="chemostat",
    states={"biomass": "g/L", "substrate": "g/L"},
    actions={"dilution": ("1/h", 0.0, 0.5)},
    rates=_chemostat_rates,
    time_step=0.5,
    target=(4.736, 0.528),
    trim=(0.25,),
    prices=(0.1, 0.1),
    action_prices=(1.0,),
    start_low=(3.0, 0.2),
    start_high=(6.0, 2.0),
    process_noise=(0.02, 0.02),
    sensor_noise=(0.05, 0.03),
    reward=lambda s, a, _: a[:, 0] * s[:, 0] - 0.1 * s[:, 1],
    limit=lambda x: np.clip(x, 0.01, 20.0),
    hold=6,
    reach=0.8,
)
"""A bioreactor whose growth is inhibited by its substrate; the reward is the harvest less what is left."""


def _cone_rates(x: Array, u: Array) -> Array:
    level, inflow = x.T
    safe = np.maximum(level, 0.3)
    return np.stack([(inflow - 0.4 * np.sqrt(safe)) / (0.5 * safe**2), (u[:, 0] - inflow) / 2.0], axis=1)


_CONE = Plant(
    name="conical-tank",
    states={"level": "dm", "inflow": "L/s"},
    actions={"inflow_command": ("L/s", 0.0, 2.0)},
    rates=_cone_rates,
    time_step=2.0,
    target=(4.0, 0.8),
    trim=(0.8,),
    prices=(1.0, 0.0),
    action_prices=(0.5,),
    start_low=(2.5, 0.5),
    start_high=(5.5, 1.1),
    process_noise=(0.03, 0.01),
    limit=lambda x: np.clip(x, (0.5, 0.0), (7.0, 2.0)),
    proportional=((0.8, 0.0),),
    integral=((0.03, 0.0),),
    spread=(1.2, 0.0),
    every=40,
)
"""A tank whose area grows with the square of its level; disturbed inflow."""


def _duffing_rates(x: Array, u: Array) -> Array:
    position, velocity = x.T
    return np.stack([velocity, position - position**3 - 0.2 * velocity + u[:, 0]], axis=1)


_DUFFING = Plant(
    name="duffing-oscillator",
    states={"displacement": "cm", "velocity": "cm/s"},
    actions={"force": ("N", -1.5, 1.5)},
    rates=_duffing_rates,
    time_step=0.15,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.2),
    action_prices=(0.1,),
    start_low=(-1.5, -1.0),
    start_high=(1.5, 1.0),
    hold=3,
    dither=0.15,
)
"""A bent beam with two rest positions, to be held between them; no noise."""


def _rotor_rates(x: Array, u: Array) -> Array:
    _, climb, pitch, rate = x.T
    left, right = u.T
    lift = (left + right) * np.cos(pitch) / 0.8 - 9.81 - 0.3 * climb * np.abs(climb)
    return np.stack([climb, lift, rate, 10.0 * (right - left) - 0.2 * rate + 2.0 * np.sin(pitch)], axis=1)


_ROTORS = Plant(
    name="two-rotors",
    states={"altitude": "m", "climb": "m/s", "pitch": "rad", "pitch_rate": "rad/s"},
    actions={"left_thrust": ("N", 0.0, 8.0), "right_thrust": ("N", 0.0, 8.0)},
    rates=_rotor_rates,
    time_step=0.05,
    target=(2.0, 0.0, 0.0, 0.0),
    trim=(3.924, 3.924),
    prices=(1.0, 0.1, 1.0, 0.05),
    action_prices=(0.02, 0.02),
    start_low=(1.3, -0.5, -0.5, -0.5),
    start_high=(2.7, 0.5, 0.5, 0.5),
    process_noise=(0.0, 0.03, 0.0, 0.05),
    limit=lambda x: end_stop(end_stop(x, 0, 1, (0.0, 4.0)), 2, 3, (-1.2, 1.2)),
    dither=0.06,
)
"""An aircraft with two rotors in the vertical, with its weight above them, in gusts; two actions."""

REPORT_PLANTS = (_ROOM, _SHIP, _DRIVE, _TANK, _MAGNET, _CHEMOSTAT, _CONE, _DUFFING, _ROTORS)
