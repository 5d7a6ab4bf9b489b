"""Speed control of a permanently excited DC motor, simulated by gym-electric-motor."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from nopg.envs import ControlLaw, Environment
from studies.plants.logged import LoggedPlant, with_dither
from studies.plants.pcgym_models import require
from studies.plants.simulation import Noise

__all__ = ["MOTOR", "Motor"]

_SUPPLY = 60.0  # V
_FLUX = 0.165  # V s/rad
_TIME_STEP = 1e-3  # s
_LOAD = {"a": 0.5, "b": 0.02, "c": 1e-4, "j_load": 1e-4}  # N m, N m s, N m s², kg m²


class Motor(Environment):
    """Bring a motor to a set speed by the duty cycle of its converter.

    Motor, converter and load are those of gym-electric-motor's `Cont-SC-PermExDc-v0` with a load of dry
    friction, viscous friction and air drag, sampled at 1 kHz; nothing limits the current. The reward is
    −((speed − set_point)/20)² − (current/200)² of the state before the step. Episodes start at a constant
    speed in [100, 200] rad/s with a set point in the same range.
    """

    state_names = ("speed", "current", "set_point")
    action_names = ("duty",)

    @property
    def state_low(self) -> torch.Tensor:
        """Lower corner of the box of states."""
        return torch.tensor([0.0, -400.0, 100.0], dtype=torch.float64)

    @property
    def state_high(self) -> torch.Tensor:
        """Upper corner of the box of states."""
        return torch.tensor([350.0, 400.0, 200.0], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """Full supply voltage backwards."""
        return -torch.ones(1, dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """Full supply voltage forwards."""
        return torch.ones(1, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 3) at a constant speed, with another set point."""
        speed, goal = 100 + 100 * torch.rand(2, num_states, dtype=torch.float64, generator=rng)
        return torch.stack([speed, load_torque(speed) / _FLUX, goal], dim=1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 3) one millisecond later; the set point stays."""
        system, solver = self._simulator
        duties, rows = self.applied(actions).numpy(), states.numpy()
        moved = np.empty((len(rows), 2))
        for i in range(len(rows)):
            solver.set_initial_value(rows[i, :2].copy(), solver.t)
            system.simulate(duties[i])
            moved[i] = solver.y
        return torch.cat([torch.as_tensor(moved), states[:, 2:]], dim=1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        del actions, next_states
        speed, current, goal = states.unbind(-1)
        return -(((speed - goal) / 20.0) ** 2) - (current / 200.0) ** 2

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(len(next_states), dtype=torch.bool)

    @cached_property
    def _simulator(self) -> tuple[Any, Any]:
        """The physical system of gym-electric-motor and its solver, which is set to a state before a step."""
        gem = require("gym_electric_motor")
        systems = require("gym_electric_motor.physical_systems")
        solver = require("gym_electric_motor.physical_systems.solvers").ScipyOdeSolver()
        env = gem.make(
            "Cont-SC-PermExDc-v0",
            tau=_TIME_STEP,
            ode_solver=solver,
            load=systems.PolynomialStaticLoad(load_parameter=_LOAD),
            constraints=(),
        )
        env.reset()
        return env.unwrapped.physical_system, solver


def load_torque(speed: torch.Tensor) -> torch.Tensor:
    """Return the torque in N m that the load takes at positive speeds in rad/s."""
    return _LOAD["a"] + _LOAD["b"] * speed + _LOAD["c"] * speed**2


def _behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return a PI controller of the speed with dither of .6 V; its integral begins at the back-EMF."""
    gain, integral_time = 0.03 / _SUPPLY, 0.015
    integral = torch.zeros(0, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        speed, _, goal = states.unbind(-1)
        if len(integral) == 0:
            integral = _FLUX * speed / _SUPPLY
        error = goal - speed
        integral = integral + gain * _TIME_STEP / integral_time * error
        return (gain * error + integral)[:, None]

    return with_dither(act, plant, (0.01,), rng)


MOTOR = LoggedPlant(
    name="motor",
    role="report",
    make_plant=Motor,
    discount=0.97,
    sizes=(1_000,),
    steps=100,
    episodes=100,
    noise=Noise(measurement=(0.5, 2.0, 0.0)),
    make_behaviour=_behaviour,
    logged_steps=100,
)
"""Ten set-point changes of .1 s under a PI controller; noise of .5 rad/s and 2 A."""
