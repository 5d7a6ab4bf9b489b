"""MuJoCo's inverted pendulum of Gymnasium under random forces."""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from nopg.envs import Environment, UniformAgent
from studies.plants.logged import LoggedPlant
from studies.plants.pcgym_models import require
from studies.plants.simulation import Noise

__all__ = ["INVERTED_PENDULUM", "InvertedPendulum"]

_ANGLE_LIMIT = 0.2  # rad, Gymnasium's


class InvertedPendulum(Environment):
    """Gymnasium's `InvertedPendulum-v5` as a pure function of states and actions.

    A cart carries a pole; the action is a force command within ±3. An episode ends when the pole leans more
    than .2 rad. The reward is 1 per step and 0 for the last. Every column starts uniform within ±.01.
    """

    state_names = ("position", "angle", "velocity", "angular_velocity")
    action_names = ("force",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    @property
    def state_low(self) -> torch.Tensor:
        """Lower corner of the box of states."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """Upper corner of the box of states."""
        return torch.tensor([1.0, _ANGLE_LIMIT, 3.0, 3.0], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """Strongest force to the left."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """Strongest force to the right."""
        return torch.full((1,), 3.0, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 4) near upright."""
        return 0.01 * (2 * torch.rand(num_states, 4, dtype=torch.float64, generator=rng) - 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 4) one step of the simulator later."""
        simulator = self._simulator
        moved = np.empty((len(states), 4))
        for i, (state, force) in enumerate(zip(states.numpy(), self.applied(actions).numpy(), strict=True)):
            simulator.set_state(state[:2], state[2:])
            simulator.do_simulation(force, simulator.frame_skip)
            moved[i] = np.concatenate([simulator.data.qpos, simulator.data.qvel])
        return torch.as_tensor(moved)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,): 1, and 0 where the episode ends."""
        del states, actions
        return (~self.terminal(next_states)).double()

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Tell, as booleans (m,), where the pole leans too far."""
        return next_states[:, 1].abs() > _ANGLE_LIMIT

    @cached_property
    def _simulator(self) -> Any:
        env = require("gymnasium").make("InvertedPendulum-v5")
        env.reset(seed=0)
        return env.unwrapped


INVERTED_PENDULUM = LoggedPlant(
    name="inverted-pendulum",
    role="report",
    make_plant=InvertedPendulum,
    discount=0.97,
    sizes=(1_000,),
    steps=1_000,
    episodes=100,
    noise=Noise(measurement=(0.001, 0.001, 0.005, 0.005)),
    make_behaviour=lambda plant, rng: UniformAgent.within(plant).controller(rng),
    logged_steps=100,
)
"""Random forces from near upright; noise of 1 mm and 1 mrad, and of .005 on the speeds."""
