"""The plants of the study of known rewards: two to develop on, and arm, reactor and obstacle to report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from nopg.envs import UniformAgent
from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.logs.hidden import PositionsOnly, numpy_law, torch_generator
from studies.logs.plant import LogPlant
from studies.plants.arm import TwoLinkArm

__all__ = ["REWARD_PLANTS", "RewardPlant"]


class RewardPlant(LogPlant):
    """A plant without hidden states, and a policy of an engineer for it."""

    @abstractmethod
    def engineered(self, measured: Array) -> Array:
        """Return actions (m, d_a) of the engineer's policy at measured columns (m, d_x)."""

    def references(self) -> Mapping[str, Behaviour]:
        """Return the engineer's policy."""
        return {"engineered": lambda episodes, rng: self.engineered}


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedArm(PositionsOnly, RewardPlant):
    """The two-link arm of the benchmark with all its columns, under random torques."""

    def behaviour(self) -> Behaviour:
        """Return uniformly random torques."""
        agent = UniformAgent.within(self.env)
        return lambda episodes, rng: numpy_law(agent.controller(torch_generator(rng)))

    def engineered(self, measured: Array) -> Array:
        """Return torques that pull the hand to the goal, with damping: τ = Jᵀ·5·(goal − hand) − .5·q̇."""
        assert isinstance(self.env, TwoLinkArm)
        first, second = self.env.parameters.lengths
        shoulder, elbow = measured[:, 0], measured[:, 0] + measured[:, 1]
        hand = self.env.hand(torch.as_tensor(measured[:, :2])).numpy()
        pull = 5.0 * (measured[:, 4:] - hand)
        outer = np.stack([-second * np.sin(elbow), second * np.cos(elbow)], axis=1)
        inner = outer + np.stack([-first * np.sin(shoulder), first * np.cos(shoulder)], axis=1)
        torques = np.stack([(inner * pull).sum(axis=1), (outer * pull).sum(axis=1)], axis=1)
        return np.asarray(np.clip(torques - 0.5 * measured[:, 2:4], self.low, self.high))


@dataclass(frozen=True, kw_only=True, eq=False)
class MovingReactor(RewardPlant):
    """A stirred reactor with an exothermic reaction, whose set point moves to a goal by a tenth a row.

    The equations are those of Seborg, Edgar and Mellichamp, around the unstable point of 350 K; a row is
    .1 min. Set points and goals lie within 4 K of it. Sensor noise of .005 mol/l and .3 K.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return states (count, 4): concentration, temperature, set point, goal."""
        low, high = (0.45, 346.0, 346.0, 346.0), (0.55, 354.0, 354.0, 354.0)
        return rng.uniform(low, high, (count, 4))

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return the states with noise of the sensors."""
        return hidden + rng.normal(size=hidden.shape) * (0.005, 0.3, 0.0, 0.0)

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the states .1 min later, by twenty Euler steps."""
        del rng
        concentration, temperature, set_point, goal = hidden.T
        for _ in range(20):
            rate = 7.2e10 * np.exp(-8750.0 / np.clip(temperature, 250.0, 500.0)) * concentration
            heat = 350.0 - temperature + 209.2 * rate + 2.092 * (actions[:, 0] - temperature)
            concentration = concentration + 0.005 * (1.0 - concentration - rate)
            temperature = temperature + 0.005 * heat
        moved = set_point + 0.1 * (goal - set_point)
        return np.stack([concentration, temperature, moved, goal], axis=1)

    def behaviour(self) -> Behaviour:
        """Return the engineer's P controller with half its gain and noise of 3 K."""

        def make(episodes: int, rng: np.random.Generator) -> Law:
            def act(measured: Array) -> Array:
                asked = 300.0 + 3.0 * (measured[:, 2] - measured[:, 1]) + 3.0 * rng.normal(size=episodes)
                return np.clip(asked[:, None], self.low, self.high)

            return act

        return make

    def engineered(self, measured: Array) -> Array:
        """Return the coolant of a P controller."""
        asked = 300.0 + 6.0 * (measured[:, 2:3] - measured[:, 1:2])
        return np.clip(asked, self.low, self.high)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanarMass(RewardPlant):
    """A mass of 1 kg on a plane, driven to the origin; friction of .5 N s/m, rows of .1 s.

    Attributes:
        starts: Lowest and highest x and y of the starts, at rest.
        around: How far the engineer's policy passes beside the obstacle.
    """

    starts: tuple[tuple[float, float], tuple[float, float]]
    around: float

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return states (count, 4) at rest."""
        return np.column_stack([rng.uniform(*self.starts, (count, 2)), np.zeros((count, 2))])

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return the states, without noise."""
        del rng
        return hidden

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the states .1 s later, exactly."""
        del rng
        place, speed, slowed = hidden[:, :2], hidden[:, 2:], math.exp(-0.05)
        limit = actions / 0.5
        moved = place + limit * 0.1 + (speed - limit) * (1 - slowed) / 0.5
        return np.concatenate([moved, limit + (speed - limit) * slowed], axis=1)

    def behaviour(self) -> Behaviour:
        """Return a soft PD controller to points that change every 20 rows in the mean, with noise."""

        def make(episodes: int, rng: np.random.Generator) -> Law:
            aims = rng.uniform(-1.0, 1.0, (episodes, 2))

            def act(measured: Array) -> Array:
                nonlocal aims
                changes, drawn = rng.random((episodes, 1)) < 0.05, rng.uniform(-1.0, 1.0, aims.shape)
                aims = np.where(changes, drawn, aims)
                asked = 1.5 * (aims - measured[:, :2]) - 1.0 * measured[:, 2:]
                return np.clip(asked + 0.5 * rng.normal(size=asked.shape), self.low, self.high)

            return act

        return make

    def engineered(self, measured: Array) -> Array:
        """Return forces of a PD controller that keeps to one side until x is small."""
        beside = self.around * np.clip(measured[:, 0], 0.0, 1.0)
        aim = np.column_stack([np.zeros(len(measured)), beside])
        return np.clip(1.5 * (aim - measured[:, :2]) - 1.5 * measured[:, 2:], self.low, self.high)


_HAND = ("(0.5 * cos(q1) + 0.5 * cos(q1 + q2) - goal_x)", "(0.5 * sin(q1) + 0.5 * sin(q1 + q2) - goal_y)")
_PLANE = {"x": "m", "y": "m", "speed_x": "m/s", "speed_y": "m/s"}
_PLANE_DISTANCE = "-sqrt(x ** 2 + y ** 2) - 0.02 * (force_x ** 2 + force_y ** 2)"
_FORCES = {"force_x": ("N", -2.0, 2.0), "force_y": ("N", -2.0, 2.0)}

_ARM = LoggedArm(
    name="two-link-arm",
    role="report",
    states=dict(zip(TwoLinkArm.state_names, ("rad", "rad", "rad/s", "rad/s", "m", "m"), strict=True)),
    actions={"torque1": ("N m", -1.0, 1.0), "torque2": ("N m", -1.0, 1.0)},
    angles={"q1": 2 * math.pi, "q2": 2 * math.pi},
    discount=0.97,
    sizes=(3_000,),
    logged_steps=50,
    steps=100,
    reward=f"-sqrt({_HAND[0]} ** 2 + {_HAND[1]} ** 2) - 0.01 * (torque1 ** 2 + torque2 ** 2)",
    repeats=1,
    env=TwoLinkArm(),
    positions=6,
)
_REACTOR = MovingReactor(
    name="moving-reactor",
    role="report",
    states={"concentration": "mol/l", "temperature": "K", "setpoint": "K", "goal": "K"},
    actions={"coolant": ("K", 280.0, 320.0)},
    discount=0.95,
    sizes=(1_500,),
    logged_steps=50,
    steps=100,
    reward="-((temperature - setpoint) / 5) ** 2 - 0.01 * ((coolant - 300) / 5) ** 2",
)
_OBSTACLE = PlanarMass(
    name="obstacle",
    role="report",
    states=_PLANE,
    actions=_FORCES,
    discount=0.97,
    sizes=(2_000,),
    logged_steps=50,
    steps=100,
    reward=f"{_PLANE_DISTANCE} - 5 * ((x - 1) ** 2 + y ** 2 < 0.16)",
    repeats=1,
    starts=((1.5, -1.0), (2.5, 1.0)),
    around=1.0,
)
_CORRIDOR = PlanarMass(
    name="corridor",
    role="development",
    states=_PLANE,
    actions=_FORCES,
    discount=0.95,
    sizes=(1_000,),
    logged_steps=40,
    steps=100,
    reward=f"{_PLANE_DISTANCE} - 2 * (abs(y - 0.3) > 0.6)",
    repeats=1,
    starts=((0.5, -1.0), (1.5, 1.5)),
    around=0.3,
)

REWARD_PLANTS: Mapping[str, RewardPlant] = {
    plant.name: plant for plant in (_CORRIDOR, _ARM, _REACTOR, _OBSTACLE)
}
"""By name; the first is for development. The others were fixed before any of them was evaluated."""
