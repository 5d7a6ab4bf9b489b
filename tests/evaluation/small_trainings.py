"""Trainings of a few updates, one per kind of plant, run once for all tests that look at them."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

import nopg
from flat_settings import configured
from nopg.envs import LQR, CartPole, MountainCar, Pendulum, UniformAgent, collect, collect_grid
from nopg.errors import SupportWarning

__all__ = [
    "Trained",
    "cart_pole",
    "far_car",
    "far_tank",
    "hanging",
    "mountain_car",
    "pendulum",
    "regulator",
    "tank",
    "trained",
]


@dataclass(frozen=True)
class Trained:
    data: nopg.Transitions
    result: nopg.TrainingResult


def trained(data: nopg.Transitions, **settings: Any) -> Trained:
    chosen: dict[str, Any] = {"model": "paper", "updates": 5, "progress": False, "discount": 0.9}
    return Trained(data, nopg.optimize(data, **configured(**chosen | settings)))


def with_units(data: nopg.Transitions, **units: str) -> nopg.Transitions:
    return replace(data, schema=replace(data.schema, units=units))


@cache
def pendulum() -> Trained:
    """Two columns, one of them an angle; all of the box is known."""
    data = collect_grid(Pendulum(), (10, 10, 2))
    return trained(with_units(data, angle="rad", velocity="rad/s", torque="N m"))


@cache
def mountain_car() -> Trained:
    """Two columns, much of whose box nobody has been to."""
    data = collect(MountainCar(), UniformAgent((-1.0,), (1.0,)), episodes=3, steps=100, seed=0)
    return trained(data, discount=0.99)


@cache
def regulator() -> Trained:
    """Two actions."""
    return trained(collect_grid(LQR(), (4, 4, 3, 3)))


@cache
def cart_pole() -> Trained:
    """Four columns, one of them an angle that keeps to 3° of its turn."""
    data = collect(CartPole(), UniformAgent(), episodes=10, steps=40, seed=0)
    return trained(with_units(data, position="m", angle="rad"), discount=0.99)


@cache
def tank() -> Trained:
    """One column, with a gap in it."""
    level = torch.cat([torch.linspace(-2.0, 0.2, 60), torch.linspace(1.2, 2.0, 30)]).double()
    valve = torch.linspace(-1.0, 1.0, 90).double().roll(37) * torch.tensor([1.0, -1.0]).repeat(45)
    data = nopg.Transitions.from_arrays(
        level,
        valve,
        -level.square(),
        0.9 * level + 0.3 * valve,
        state_names=["level"],
        action_names=["valve"],
        units={"level": "m", "reward": "€"},
        initial_states=[[1.5]],
    )
    return trained(data)


@cache
def far_car() -> Trained:
    """The car with a start at a speed that was never logged."""
    return _from_outside(mountain_car(), [[-0.5, 0.0], [-0.5, 0.2]])


@cache
def far_tank() -> Trained:
    """The tank with a start at a level that was never logged."""
    return _from_outside(tank(), [[1.5], [5.0]])


def _from_outside(case: Trained, starts: list[list[float]]) -> Trained:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        return trained(case.data.starting_at(starts), updates=1)


def hanging(turn: float = 2 * math.pi, **declared: Any) -> nopg.Transitions:
    """Return a pendulum that keeps to half a radian of hanging, its angle in this unit of a turn."""
    angle, speed = torch.linspace(math.pi - 0.5, math.pi + 0.5, 12), torch.linspace(-1.0, 1.0, 5)
    rows = torch.cartesian_prod(angle, speed, torch.tensor([-2.0, 0.0, 2.0])).double()
    states, after = rows[:, :2].clone(), rows[:, :2] + 0.05 * rows[:, 1:] * torch.tensor([1.0, -1.0])
    for table in (states, after):
        table[:, 0] = (table[:, 0] * turn / (2 * math.pi) + turn / 2) % turn - turn / 2
    return nopg.Transitions.from_arrays(
        states,
        rows[:, 2],
        -states[:, 1].square(),
        after,
        state_names=["angle", "speed"],
        angles={"angle": turn},
        **declared,
    )
