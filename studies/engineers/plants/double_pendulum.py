"""MuJoCo's inverted double pendulum of Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant
from studies.plants.pcgym_models import require

__all__ = ["DOUBLE_PENDULUM"]

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
        env = require("gymnasium").make("InvertedDoublePendulum-v5")
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
    del states, actions
    across, height = _tip(next_states)
    speeds = next_states[:, 4:] ** 2 @ np.array((1e-3, 5e-3))
    return np.asarray(10.0 * ~_fallen(next_states) - 0.01 * across**2 - (height - 2.0) ** 2 - speeds)


DOUBLE_PENDULUM = _MujocoPlant(
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
