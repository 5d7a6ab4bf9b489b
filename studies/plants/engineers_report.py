"""Plants of the engineers' benchmark for the report alone: process industry, motion, a double pendulum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.errors import MissingExtraError
from studies.plants.laws import Array
from studies.plants.plant import DelayedPlant, Plant


def _coupled_rates(x: Array, u: Array) -> Array:
    apart = x[:, 0] - x[:, 1]
    between = 0.35 * np.sign(apart) * np.sqrt(np.abs(apart))
    out = 0.25 * np.sqrt(np.maximum(x[:, 1], 0.0))
    return np.stack([(0.09 * u[:, 0] - between) / 1.5, (between - out) / 1.5], axis=1)


_COUPLED_OUT = 0.25 * math.sqrt(2.5)
_COUPLED = Plant(
    name="coupled-tanks",
    states={"first_level": "dm", "second_level": "dm"},
    actions={"pump": ("V", 0.0, 10.0)},
    rates=_coupled_rates,
    time_step=3.0,
    target=(2.5 + (_COUPLED_OUT / 0.35) ** 2, 2.5),
    trim=(_COUPLED_OUT / 0.09,),
    prices=(0.0, 1.0),
    action_prices=(0.01,),
    start_low=(3.0, 1.8),
    start_high=(4.6, 3.2),
    process_noise=(0.03, 0.02),
    limit=lambda x: np.clip(x, 0.0, 8.0),
    proportional=((0.0, 1.5),),
    integral=((0.0, 0.08),),
    spread=(0.0, 0.7),
    every=40,
)
"""Two tanks joined by a pipe; a pump fills the first, the level of the second counts."""


def _reactor_rates(x: Array, u: Array) -> Array:
    concentration, temperature = x.T
    speed = 0.7 * np.exp(9000.0 * (1 / 345.0 - 1 / np.clip(temperature, 280.0, 430.0)))
    reacted = speed * concentration
    heat = 0.8 * (330.0 - temperature) + 150.0 * reacted + 1.6 * (u[:, 0] - temperature)
    return np.stack([0.8 * (1.2 - concentration) - reacted, heat], axis=1)


_REACTOR = Plant(
    name="unstable-reactor",
    states={"concentration": "mol/L", "temperature": "K"},
    actions={"jacket_temperature": ("K", 295.0, 326.0)},
    rates=_reactor_rates,
    time_step=0.1,
    substeps=4,
    target=(0.64, 345.0),
    trim=(310.5,),
    prices=(10.0, 0.02),
    action_prices=(0.004,),
    start_low=(0.56, 340.0),
    start_high=(0.72, 350.0),
    sensor_noise=(0.005, 0.3),
    limit=lambda x: np.clip(x, (0.0, 290.0), (1.2, 420.0)),
    proportional=((0.0, 2.5),),
    integral=((0.0, 0.1),),
    spread=(0.0, 3.0),
    every=40,
    dither=0.05,
)
"""A stirred reactor with an exothermic reaction, held at its unstable steady state by its jacket."""

_OUTLETS, _FEED, _SPLIT = (0.12, 0.13, 0.10, 0.11), 0.03, (0.65, 0.6)


def _four_tank_rates(x: Array, u: Array) -> Array:
    out = np.array(_OUTLETS) * np.sqrt(np.maximum(x, 0.0))
    into = _FEED * u
    return np.stack(
        [
            out[:, 2] + _SPLIT[0] * into[:, 0] - out[:, 0],
            out[:, 3] + _SPLIT[1] * into[:, 1] - out[:, 1],
            (1 - _SPLIT[1]) * into[:, 1] - out[:, 2],
            (1 - _SPLIT[0]) * into[:, 0] - out[:, 3],
        ],
        axis=1,
    )


def _four_levels(pumps: float) -> tuple[float, ...]:
    """Return the levels at rest with both pumps at this voltage."""
    upper = [(1 - _SPLIT[1]) * _FEED * pumps, (1 - _SPLIT[0]) * _FEED * pumps]
    lower = [split * _FEED * pumps + above for split, above in zip(_SPLIT, upper, strict=True)]
    return tuple((flow / outlet) ** 2 for flow, outlet in zip((*lower, *upper), _OUTLETS, strict=True))


_FOUR_TARGET = _four_levels(5.0)
_FOUR_TANKS = Plant(
    name="four-tank",
    states={"level_1": "dm", "level_2": "dm", "level_3": "dm", "level_4": "dm"},
    actions={"pump_1": ("V", 0.0, 10.0), "pump_2": ("V", 0.0, 10.0)},
    rates=_four_tank_rates,
    time_step=3.0,
    target=_FOUR_TARGET,
    trim=(5.0, 5.0),
    prices=(1.0, 1.0, 0.0, 0.0),
    action_prices=(0.005, 0.005),
    start_low=tuple(level - reach for level, reach in zip(_FOUR_TARGET, (0.4, 0.4, 0.1, 0.1), strict=True)),
    start_high=tuple(level + reach for level, reach in zip(_FOUR_TARGET, (0.4, 0.4, 0.1, 0.1), strict=True)),
    process_noise=(0.01, 0.01, 0.005, 0.005),
    limit=lambda x: np.clip(x, 0.0, 5.0),
    proportional=((2.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0)),
    integral=((0.1, 0.0, 0.0, 0.0), (0.0, 0.1, 0.0, 0.0)),
    spread=(0.3, 0.3, 0.0, 0.0),
    every=40,
)
"""Four tanks and two pumps that feed across; the levels of the lower two count, each with its PI loop."""

_DELAY = 5


def _furnace_rates(x: Array, u: Array) -> Array:
    warmer = x - 20.0
    return np.asarray(6.0 * u - 0.05 * warmer - 1e-4 * warmer * np.abs(warmer))


_FURNACE = DelayedPlant(
    name="delayed-furnace",
    delay=_DELAY,
    states={"temperature": "°C"} | {f"power_{k}_before": "kW" for k in range(1, _DELAY + 1)},
    actions={"power": ("kW", 0.0, 1.0)},
    rates=_furnace_rates,
    time_step=2.0,
    target=(80.0, *[0.56] * _DELAY),
    trim=(0.56,),
    prices=(0.01, *[0.0] * _DELAY),
    action_prices=(2.0,),
    start_low=(65.0, *[0.4] * _DELAY),
    start_high=(95.0, *[0.7] * _DELAY),
    process_noise=(0.2, *[0.0] * _DELAY),
    sensor_noise=(0.3, *[0.0] * _DELAY),
    limit=lambda x: np.clip(x, 0.0, 200.0),
    proportional=((0.01, *[0.0] * _DELAY),),
    integral=((0.00125, *[0.0] * _DELAY),),
    spread=(8.0, *[0.0] * _DELAY),
    every=40,
)
"""A furnace whose power arrives five samples late; the earlier powers are columns of the log."""


def _heater_rates(x: Array, u: Array) -> Array:
    element, water = x.T
    into = element - water
    return np.stack([4.0 * u[:, 0] - 0.3 * into, 0.06 * into - 0.02 * (water - 20.0)], axis=1)


_HEATER = Plant(
    name="noisy-heater",
    states={"element": "°C", "water": "°C"},
    actions={"power": ("kW", 0.0, 1.5)},
    rates=_heater_rates,
    time_step=2.0,
    target=(45.0 + 0.5 / 0.06, 45.0),
    trim=(0.625,),
    prices=(0.0, 0.04),
    action_prices=(0.5,),
    start_low=(47.0, 40.0),
    start_high=(60.0, 50.0),
    process_noise=(0.1, 0.05),
    sensor_noise=(1.5, 0.8),
    limit=lambda x: np.clip(x, 0.0, 150.0),
    proportional=((0.0, 0.06),),
    integral=((0.0, 0.003),),
    spread=(0.0, 5.0),
    every=40,
)
"""A water heater with strong sensor noise."""

_LIMIT = 10.8


def _drum_rates(x: Array, u: Array) -> Array:
    pressure, heat = x.T
    draw = 0.24 * np.sqrt(np.maximum(pressure, 0.0))
    return np.stack([0.15 * heat - draw, (u[:, 0] - heat) / 8.0], axis=1)


_DRUM_HEAT = 0.24 * math.sqrt(10.0) / 0.15
_DRUM = Plant(
    name="steam-drum",
    states={"pressure": "bar", "heat": "MW"},
    actions={"firing": ("MW", 0.0, 10.0)},
    rates=_drum_rates,
    time_step=2.0,
    target=(10.0, _DRUM_HEAT),
    trim=(_DRUM_HEAT,),
    prices=(0.2, 0.0),
    action_prices=(0.05,),
    start_low=(8.0, 4.0),
    start_high=(10.5, 6.0),
    process_noise=(0.08, 0.1),
    reward=lambda s, a, _: (
        -0.2 * (s[:, 0] - 10.0) ** 2
        - 0.05 * (a[:, 0] - _DRUM_HEAT) ** 2
        - 30.0 * np.maximum(s[:, 0] - _LIMIT, 0.0) ** 2
    ),
    limit=lambda x: np.clip(x, 0.0, (20.0, 10.0)),
    proportional=((1.0, 0.0),),
    integral=((0.04, 0.0),),
    spread=(1.0, 0.0),
    every=40,
)
"""A steam drum with a target of 10 bar and a steep penalty above 10.8 bar."""


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


_LENGTH, _FALLEN = 0.6, 1.0  # m, of each pole and of the height of the tip


@dataclass(frozen=True, kw_only=True, eq=False)
class _MujocoPlant(Plant):
    """A plant whose steps are those of `InvertedDoublePendulum-v5`."""

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, 6) one time step later."""
        simulator = self._simulator
        moved = np.empty_like(states)
        for i, (state, force) in enumerate(zip(states, actions, strict=True)):
            simulator.set_state(state[:3], state[3:])
            simulator.do_simulation(force, simulator.frame_skip)
            moved[i] = np.concatenate([simulator.data.qpos, simulator.data.qvel])
        return moved

    @cached_property
    def _simulator(self) -> Any:
        try:
            import gymnasium
        except ImportError as error:
            raise MissingExtraError("gymnasium", "studies") from error
        env = gymnasium.make("InvertedDoublePendulum-v5")
        env.reset(seed=0)
        return env.unwrapped


def _tip(states: Array) -> tuple[Array, Array]:
    """Return position and height of the tip, each (m,)."""
    first, second = states[:, 1], states[:, 1] + states[:, 2]
    across = states[:, 0] + _LENGTH * (np.sin(first) + np.sin(second))
    return across, _LENGTH * (np.cos(first) + np.cos(second))


def _fallen(states: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(_tip(states)[1] <= _FALLEN)


def _reward(states: Array, actions: Array, next_states: Array) -> Array:
    """Return Gymnasium's rewards (m,): 10 for every step upright, less distance and speed."""
    across, height = _tip(next_states)
    speeds = next_states[:, 4:] ** 2 @ np.array((1e-3, 5e-3))
    return np.asarray(10.0 * ~_fallen(next_states) - 0.01 * across**2 - (height - 2.0) ** 2 - speeds)


_DOUBLE_PENDULUM = _MujocoPlant(
    name="double-pendulum",
    states={
        "position": "m",
        "first_angle": "rad",
        "second_angle": "rad",
        "velocity": "m/s",
        "first_speed": "rad/s",
        "second_speed": "rad/s",
    },
    actions={"force": ("", -1.0, 1.0)},
    rates=lambda x, _: np.zeros_like(x),
    time_step=0.05,
    target=(0.0,) * 6,
    trim=(0.0,),
    prices=(0.1, 1.0, 1.0, 0.01, 0.01, 0.01),
    action_prices=(0.01,),
    start_low=(-0.1,) * 6,
    start_high=(0.1,) * 6,
    reward=_reward,
    terminal=_fallen,
    hold=1,
)
"""A cart with two poles, from near upright; an episode ends when the tip is below 1 m."""

REPORT_PLANTS = (
    _COUPLED,
    _REACTOR,
    _FOUR_TANKS,
    _FURNACE,
    _HEATER,
    _DRUM,
    _SERVO,
    _COIL,
    _SPLIT_RANGE,
    _DOUBLE_PENDULUM,
)
