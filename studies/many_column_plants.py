"""Plants with six columns and more; report plants were fixed before any model was fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant
from studies.engineers.plants import DOUBLE_PENDULUM
from studies.engineers.task import Task
from studies.plants.arm import TwoLinkArm
from studies.plants.pcgym_models import require

__all__ = ["DEVELOPMENT", "TASKS"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Arm(Plant):
    """The two-link arm of the benchmark; its goal is two columns that do not move."""

    arm: TwoLinkArm = field(default_factory=TwoLinkArm)

    def starts(self, count: int, rng: np.random.Generator) -> Array:
        """Return initial states (count, 6) of the arm."""
        source = torch.Generator().manual_seed(int(rng.integers(2**31)))
        return self.arm.initial(count, rng=source).numpy()

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, 6) one time step later."""
        return self.arm.step(torch.as_tensor(states), torch.as_tensor(actions)).numpy()


_ARM = _Arm(
    name="two-link-arm",
    states=dict.fromkeys(TwoLinkArm.state_names, ""),
    actions=dict.fromkeys(TwoLinkArm.action_names, ("N m", -1.0, 1.0)),
    rates=lambda x, _: np.zeros_like(x),
    time_step=0.05,
    target=(0.0,) * 6,
    trim=(0.0, 0.0),
    prices=(1.0, 1.0, 0.1, 0.1, 0.0, 0.0),
    action_prices=(0.01, 0.01),
    start_low=(-1.0,) * 6,
    start_high=(1.0,) * 6,
    angles=TwoLinkArm.angles,
    hold=3,
)
"""Six columns, random torques."""

_MASSES, _PUSHED = 12, (1, 5, 9)


def _chain_rates(x: Array, u: Array) -> Array:
    position, velocity = x[:, :_MASSES], x[:, _MASSES:]
    wall = np.zeros((len(x), 1))
    stretched = np.diff(np.concatenate([wall, position, wall], axis=1), axis=1)
    pull = 10.0 * stretched + 10.0 * stretched**3
    force = np.diff(pull, axis=1) - 0.2 * velocity
    force[:, _PUSHED] += u
    return np.concatenate([velocity, force], axis=1)


_CHAIN = Plant(
    name="chain",
    states={
        **{f"position{k}": "m" for k in range(_MASSES)},
        **{f"velocity{k}": "m/s" for k in range(_MASSES)},
    },
    actions={f"force{k}": ("N", -5.0, 5.0) for k in _PUSHED},
    rates=_chain_rates,
    time_step=0.1,
    substeps=4,
    target=(0.0,) * (2 * _MASSES),
    trim=(0.0,) * 3,
    prices=(*(1.0,) * _MASSES, *(0.1,) * _MASSES),
    action_prices=(0.01,) * 3,
    start_low=(-0.5,) * (2 * _MASSES),
    start_high=(0.5,) * (2 * _MASSES),
    process_noise=(*(0.0,) * _MASSES, *(0.01,) * _MASSES),
    hold=5,
)
"""Twelve masses between two walls, with hardening springs; forces push three of them."""
_PUSHED_HARD = replace(_CHAIN, name="pushed-chain", actions=dict.fromkeys(_CHAIN.actions, ("N", -20.0, 20.0)))
"""The same under stronger forces, where springs are twice as stiff as at rest."""

# Mole fractions at rest from the reboiler to the condenser, with reflux 2.9 and boilup 3.4.
_PROFILE = (
    *(0.0509, 0.0714, 0.0966, 0.1271, 0.1628, 0.2034, 0.2479, 0.2949, 0.3426, 0.3891, 0.4324, 0.4715),
    *(0.5055, 0.5459, 0.5906, 0.6382, 0.6872, 0.7358, 0.7823, 0.8253, 0.8638, 0.8972, 0.9256, 0.9491),
)
_STAGES, _FEED = len(_PROFILE), 12
_HOLDUP = np.array([2.0, *(0.5,) * (_STAGES - 2), 2.0])


def _column_rates(x: Array, u: Array) -> Array:
    """Constant molar overflow, relative volatility 1.5, a feed of 1 kmol/min with half light component."""
    reflux, boilup = u[:, :1], u[:, 1:]
    vapour = boilup * 1.5 * x / (1.0 + 0.5 * x)
    liquid = (reflux + (np.arange(_STAGES) <= _FEED)) * x
    gain = np.zeros_like(x)
    gain[:, 1:-1] = liquid[:, 2:] - liquid[:, 1:-1] + vapour[:, :-2] - vapour[:, 1:-1]
    gain[:, _FEED] += 0.5
    gain[:, 0] = liquid[:, 1] - vapour[:, 0] - (reflux + 1.0 - boilup)[:, 0] * x[:, 0]
    gain[:, -1] = vapour[:, -2] - boilup[:, 0] * x[:, -1]
    return np.asarray(gain / _HOLDUP)


_COLUMN = Plant(
    name="distillation",
    states={f"fraction{k}": "" for k in range(_STAGES)},
    actions={"reflux": ("kmol/min", 2.7, 3.1), "boilup": ("kmol/min", 3.2, 3.6)},
    rates=_column_rates,
    time_step=1.0,
    substeps=20,
    target=_PROFILE,
    trim=(2.9, 3.4),
    prices=(1000.0, *(0.0,) * (_STAGES - 2), 1000.0),
    action_prices=(1.0, 1.0),
    start_low=tuple(x - 0.01 for x in _PROFILE),
    start_high=tuple(x + 0.01 for x in _PROFILE),
    sensor_noise=(0.002,) * _STAGES,
    hold=10,
)
"""A distillation column of 24 stages; both ends are to hold their purity."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Walker(Plant):
    """A plant of MuJoCo; its place in the world, the first positions, is no column of the state.

    Attributes:
        environment: Name in Gymnasium.
        places: Number of positions that are no columns.
    """

    environment: str
    places: int

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, d_s) one time step later."""
        return self._moved(states, actions)[:, self.places :]

    def _rewards(self, states: Array, actions: Array, next_states: Array) -> Array:
        """Return Gymnasium's rewards (m,): speed forward, less a price of the squared actions."""
        del next_states
        speed = self._moved(states, actions)[:, 0] / self.time_step
        return np.asarray(speed - self.action_prices[0] * (actions**2).sum(axis=1))

    def _moved(self, states: Array, actions: Array) -> Array:
        """Return positions and velocities one time step after places at 0."""
        simulator, found = self._simulator, []
        joints = len(simulator.data.qpos) - self.places
        for state, action in zip(states, actions, strict=True):
            simulator.set_state(np.concatenate([np.zeros(self.places), state[:joints]]), state[joints:])
            simulator.do_simulation(action, simulator.frame_skip)
            found.append(np.concatenate([simulator.data.qpos, simulator.data.qvel]))
        return np.array(found)

    @cached_property
    def _simulator(self) -> Any:
        env = require("gymnasium").make(self.environment)
        env.reset(seed=0)
        return env.unwrapped


def _walker(environment: str, joints: tuple[str, ...], across: tuple[str, ...], **values: Any) -> _Walker:
    """Return a plant of MuJoCo.

    Args:
        environment: Name in Gymnasium.
        joints: Names of the positions that are columns; those but the place and the first turn are driven.
        across: Names of the velocities of the place.
        values: Further attributes.
    """
    speeds = tuple(f"{name}_speed" for name in (*across, *joints))
    columns = len(joints) + len(speeds)
    return _Walker(
        environment=environment,
        states=dict.fromkeys((*joints, *speeds), ""),
        rates=lambda x, _: np.zeros_like(x),
        target=(0.0,) * columns,
        prices=(1.0,) * columns,
        start_low=(-0.1,) * columns,
        start_high=(0.1,) * columns,
        angles={"pitch": 2 * np.pi} if "pitch" in joints else {"heading": 2 * np.pi},
        **values,
    )


_CHEETAH_JOINTS = ("back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin", "front_foot")
_SWIMMER = _walker(
    "Swimmer-v5",
    ("heading", "front", "back"),
    ("x", "y"),
    name="swimmer",
    places=2,
    actions=dict.fromkeys(("front_torque", "back_torque"), ("", -1.0, 1.0)),
    trim=(0.0,) * 2,
    action_prices=(1e-4,) * 2,
    time_step=0.04,
    hold=5,
)
"""Three links in a viscous fluid, eight columns."""
_CHEETAH = _walker(
    "HalfCheetah-v5",
    ("height", "pitch", *_CHEETAH_JOINTS),
    ("x",),
    name="half-cheetah",
    places=1,
    actions={f"{name}_torque": ("", -1.0, 1.0) for name in _CHEETAH_JOINTS},
    trim=(0.0,) * 6,
    action_prices=(0.1,) * 6,
    time_step=0.05,
    hold=3,
)
"""A planar runner with contacts, 17 columns."""

DEVELOPMENT = (
    Task(_ARM, "random", 50, 0.97, "two links"),
    Task(_CHAIN, "random", 50, 0.97, "twelve masses, hardening springs"),
    Task(_PUSHED_HARD, "random", 50, 0.97, "the same, farther from linear"),
)
"""A rule may be chosen on these."""
_REPORT = (
    Task(DOUBLE_PENDULUM, "random", 50, 0.97, "unstable, MuJoCo"),
    Task(_SWIMMER, "random", 50, 0.97, "three links in a fluid, MuJoCo"),
    Task(_CHEETAH, "random", 50, 0.97, "contacts, MuJoCo"),
    Task(_COLUMN, "random", 100, 0.98, "24 stages, noisy sensors"),
)

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in (*DEVELOPMENT, *_REPORT)})
"""All plants by name, development first."""
