"""Plants on which the evaluator may be developed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from studies.plants.laws import Array
from studies.plants.plant import Plant, end_stop

_GRAVITY = 9.81


def _table_rates(x: Array, u: Array) -> Array:
    return np.stack([x[:, 1], u[:, 0]], axis=1)


_TABLE = Plant(
    name="positioning-table",
    states={"position": "m", "velocity": "m/s"},
    actions={"force": ("N", -2.0, 2.0)},
    rates=_table_rates,
    time_step=0.1,
    substeps=1,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.1),
    action_prices=(0.1,),
    start_low=(-1.0, -0.5),
    start_high=(1.0, 0.5),
    limit=lambda x: end_stop(x, 0, 1, (-5.0, 5.0)),
)
"""A mass of 1 kg on a rail with end stops at ±5 m: a double integrator without noise."""

_NOISY_TABLE = replace(
    _TABLE, name="noisy-positioning-table", sensor_noise=(0.03, 0.05), process_noise=(0.0, 0.05)
)
"""The same with sensor noise and a random force."""


def _pendulum_rates(x: Array, u: Array) -> Array:
    angle, speed = x.T
    friction = 0.2 * speed + 0.1 * np.tanh(speed / 0.05)
    return np.stack([speed, -_GRAVITY / 0.5 * np.sin(angle) + 4.0 * (u[:, 0] - friction)], axis=1)


def _pendulum_reward(states: Array, actions: Array, next_states: Array) -> Array:
    angle, speed = states.T
    return np.asarray(np.cos(angle - 0.8) - 1.0 - 0.01 * speed**2 - 0.002 * actions[:, 0] ** 2)


_PENDULUM = Plant(
    name="pendulum-with-friction",
    states={"angle": "rad", "speed": "rad/s"},
    actions={"torque": ("N m", -5.0, 5.0)},
    rates=_pendulum_rates,
    time_step=0.05,
    target=(0.8, 0.0),
    trim=(float(_GRAVITY / 0.5 * np.sin(0.8) / 4.0),),
    prices=(0.5, 0.01),
    action_prices=(0.002,),
    start_low=(-3.0, -3.0),
    start_high=(3.0, 3.0),
    angles={"angle": 2 * np.pi},
    sensor_noise=(0.01, 0.05),
    reward=_pendulum_reward,
    limit=lambda x: np.clip(x, -1e3, 1e3),
    hold=4,
)
"""A pendulum with viscous and dry friction, to be held at .8 rad from hanging; reward not quadratic."""


def _tank_rates(x: Array, u: Array) -> Array:
    out = 0.25 * np.sqrt(np.maximum(x, 0.0))
    return np.stack([0.08 * u[:, 0] - out[:, 0], out[:, 0] - out[:, 1]], axis=1)


_TANKS = Plant(
    name="tanks-in-series",
    states={"upper_level": "dm", "lower_level": "dm"},
    actions={"pump": ("V", 0.0, 10.0)},
    rates=_tank_rates,
    time_step=2.0,
    target=(2.0, 2.0),
    trim=(float(0.25 * np.sqrt(2.0) / 0.08),),
    prices=(0.0, 1.0),
    action_prices=(0.01,),
    start_low=(1.2, 1.2),
    start_high=(2.8, 2.8),
    process_noise=(0.03, 0.02),
    limit=lambda x: np.clip(x, 0.0, 6.0),
    proportional=((0.0, 2.0),),
    integral=((0.0, 0.15),),
    spread=(0.0, 0.8),
    every=40,
)
"""Two tanks with free outflow, the level of the lower one controlled by a pump; disturbed inflow."""


def _reactor_rates(x: Array, u: Array) -> Array:
    concentration, temperature = x.T
    rate = 7.2e10 * np.exp(-8750.0 / np.clip(temperature, 250.0, 500.0)) * concentration
    heat = 350.0 - temperature + 209.2 * rate + 2.092 * (u[:, 0] - temperature)
    return np.stack([1.0 - concentration - rate, heat], axis=1)


_REACTOR = Plant(
    name="exothermic-reactor",
    states={"concentration": "mol/L", "temperature": "K"},
    actions={"coolant_temperature": ("K", 285.0, 315.0)},
    rates=_reactor_rates,
    time_step=0.1,
    substeps=4,
    target=(0.5, 350.0),
    trim=(300.0,),
    prices=(20.0, 0.01),
    action_prices=(0.002,),
    start_low=(0.4, 343.0),
    start_high=(0.6, 357.0),
    sensor_noise=(0.005, 0.4),
    limit=lambda x: np.clip(x, (0.0, 280.0), (1.0, 450.0)),
    proportional=((0.0, 4.0),),
    integral=((0.0, 0.2),),
    spread=(0.0, 3.0),
    every=30,
    dither=0.05,
)
"""A stirred tank with an exothermic reaction near its unstable steady state; noisy sensors."""


def _cart_pole_rates(x: Array, u: Array) -> Array:
    _, velocity, angle, speed = x.T
    sine, cosine, mass, half = np.sin(angle), np.cos(angle), 1.1, 0.5
    push = (u[:, 0] - 0.3 * velocity + 0.1 * half * speed**2 * sine) / mass
    turn = (_GRAVITY * sine - cosine * push) / (half * (4 / 3 - 0.1 * cosine**2 / mass))
    return np.stack([velocity, push - 0.1 * half * turn * cosine / mass, speed, turn], axis=1)


_CART_POLE = Plant(
    name="pole-on-a-cart",
    states={"position": "m", "velocity": "m/s", "angle": "rad", "speed": "rad/s"},
    actions={"force": ("N", -10.0, 10.0)},
    rates=_cart_pole_rates,
    time_step=0.04,
    target=(0.0, 0.0, 0.0, 0.0),
    trim=(0.0,),
    prices=(0.2, 0.02, 2.0, 0.02),
    action_prices=(0.001,),
    start_low=(-0.5, -0.2, -0.1, -0.2),
    start_high=(0.5, 0.2, 0.1, 0.2),
    process_noise=(0.0, 0.01, 0.0, 0.02),
    reward=lambda s, a, _: 1.0 - s**2 @ np.array((0.2, 0.02, 2.0, 0.02)) - 0.001 * a[:, 0] ** 2,
    terminal=lambda x: (np.abs(x[:, 2]) > 0.3) | (np.abs(x[:, 0]) > 1.5),
    hold=1,
    reach=0.8,
)
"""A pole on a cart; the task ends when it leans by .3 rad or the cart is at the end of the rail."""


def _circuit_rates(x: Array, u: Array) -> Array:
    sources = 6.0 * np.tanh(u / 4.0)
    coupling = 0.5 * (x[:, 1] - x[:, 0])
    return np.stack(
        [(sources[:, 0] - x[:, 0]) + coupling, 0.5 * (sources[:, 1] - x[:, 1]) - coupling], axis=1
    )


_CIRCUIT = Plant(
    name="rc-network",
    states={"voltage_1": "V", "voltage_2": "V"},
    actions={"input_1": ("V", -8.0, 8.0), "input_2": ("V", -8.0, 8.0)},
    rates=_circuit_rates,
    time_step=0.2,
    target=(2.0, 1.0),
    trim=(float(4 * np.arctanh(2.5 / 6)), 0.0),
    prices=(1.0, 1.0),
    action_prices=(0.05, 0.05),
    start_low=(-3.0, -3.0),
    start_high=(5.0, 5.0),
    process_noise=(0.05, 0.05),
    sensor_noise=(0.05, 0.05),
    softness=20.0,
    hold=2,
)
"""Two capacitors charged by amplifiers that saturate; two actions, noise on states and sensors."""

DEVELOPMENT_PLANTS = (_TABLE, _NOISY_TABLE, _PENDULUM, _TANKS, _REACTOR, _CART_POLE, _CIRCUIT)
