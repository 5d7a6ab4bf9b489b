"""Swing-ups of the paper's pendulum, from hanging, with data of four kinds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import Pendulum, collect, collect_grid, collect_uniform
from nopg.errors import ArgumentError
from studies.paper_data import PENDULUM_GRIDS, MixtureOfGaussians
from studies.plants.benchmark import Benchmark, Controller, log_rows
from studies.plants.simulation import Noise

__all__ = ["PENDULUMS"]

_LOGGED_STEPS = 500


@dataclass(frozen=True, kw_only=True)
class GridPendulum(Benchmark):
    """Single experiments on the paper's grids over states and torques, the same at every seed."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return the grid of this size; it starts hanging."""
        del seed
        if rows not in PENDULUM_GRIDS:
            raise ArgumentError(f"there is no grid of {rows} samples; choose from {sorted(PENDULUM_GRIDS)}")
        return collect_grid(self.plant, PENDULUM_GRIDS[rows])


@dataclass(frozen=True, kw_only=True)
class RandomPendulum(Benchmark):
    """Episodes of 500 steps from upright under random torques; the task starts hanging."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return this many logged rows, the last episode cut to fit."""
        upright = Pendulum(start="upright")

        def log(episodes: int) -> Transitions:
            return collect(upright, MixtureOfGaussians(), episodes=episodes, steps=_LOGGED_STEPS, seed=seed)

        return log_rows(log, rows, _LOGGED_STEPS).starting_at(self.plant.initial(1))

    def behaviour(self) -> Controller:
        """Return the random agent that logged the data."""
        law, plant = MixtureOfGaussians().controller(generator(0, "behaviour")), self.plant
        return lambda observations: plant.applied(torch.as_tensor(law(torch.as_tensor(observations)))).numpy()


@dataclass(frozen=True, kw_only=True)
class UniformPendulum(Benchmark):
    """Unconnected transitions, uniform in the box of states and torques."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return this many transitions, the noise of the actuator in their next states."""
        data = collect_uniform(self.plant, rows, seed=seed)
        torques = self.noise.disturbed(data.actions, generator(seed, "torque noise"))
        return replace(data, next_states=self.plant.step(data.states, torques))


PENDULUMS: tuple[Benchmark, ...] = (
    GridPendulum(
        name="pendulum-grid",
        role="development",
        make_plant=Pendulum,
        discount=0.97,
        sizes=(200, 450, 800, 1_250, 1_800, 3_200),
        steps=500,
        episodes=1,
    ),
    GridPendulum(
        name="pendulum-grid-99",
        role="development",
        make_plant=Pendulum,
        discount=0.99,
        sizes=(1_800,),
        steps=500,
        episodes=1,
    ),
    RandomPendulum(
        name="pendulum-random",
        role="development",
        make_plant=Pendulum,
        discount=0.97,
        sizes=(1_000, 3_000),
        steps=500,
        episodes=1,
    ),
    UniformPendulum(
        name="stochastic-pendulum",
        role="development",
        make_plant=Pendulum,
        discount=0.97,
        sizes=(3_000,),
        steps=500,
        episodes=100,
        noise=Noise(disturbance=(0.5,)),
    ),
    UniformPendulum(
        name="pendulum-uniform",
        role="development",
        make_plant=Pendulum,
        discount=0.97,
        sizes=(1_000, 10_000, 100_000),
        steps=500,
        episodes=1,
    ),
)
"""The paper's grids for two discounts, random logs, torque noise of .5 N m, and sizes to measure CPU time."""
