"""Plants on which constants of the monitor may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import (
    LQR,
    CartPole,
    ControlLaw,
    Environment,
    Pendulum,
    TwoTanks,
    UniformAgent,
    collect,
    collect_uniform,
)
from studies.monitor.plant import Noise, WatchedPlant, logged, with_dither
from studies.plants.laws import level_controller


def _uniform(purpose: str) -> Callable[[WatchedPlant, int], Transitions]:
    """Return what logs unconnected transitions, the noise of the actuator in their next states."""

    def log(watched: WatchedPlant, seed: int) -> Transitions:
        data = collect_uniform(watched.plant, watched.rows, seed=seed)
        actions = watched.noise.disturbed(data.actions, generator(seed, purpose))
        return replace(data, next_states=watched.plant.step(data.states, actions))

    return log


def _random_voltages(watched: WatchedPlant, seed: int) -> Transitions:
    """Return episodes of a cart-pole under uniformly random voltages, with 15 declared starts."""
    episodes = 2
    while len(data := collect(watched.plant, UniformAgent(), episodes=episodes, steps=1_000, seed=seed)) < (
        watched.rows
    ):
        episodes *= 2
    starts = watched.plant.initial(15, rng=generator(seed, "starts of the task"))
    return data.take(torch.arange(watched.rows)).starting_at(starts)


def _level_control(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return a PI controller with dither of .5 V."""
    assert isinstance(plant, TwoTanks)
    return with_dither(level_controller(plant), plant, (0.5,), rng)


DEVELOPMENT_PLANTS = (
    WatchedPlant(
        name="two-tanks",
        role="development",
        make=TwoTanks,
        discount=0.95,
        rows=1_000,
        steps=60,
        sensor="lower",
        noise=Noise(measurement=(0.05, 0.05, 0.0)),
        log=logged(_level_control, steps=60),
    ),
    WatchedPlant(  # without noise on its actions all runs are the same
        name="lqr",
        role="development",
        make=lambda: LQR(state_bound=1.5, action_bound=5.0),
        discount=0.9,
        rows=1_000,
        steps=30,
        sensor="x1",
        noise=Noise(disturbance=(0.2, 0.2)),
        log=_uniform("noise of the log"),
    ),
    WatchedPlant(  # swings up twice in 200 steps
        name="stochastic-pendulum",
        role="development",
        make=Pendulum,
        discount=0.97,
        rows=3_000,
        steps=100,
        sensor="angle",
        noise=Noise(disturbance=(0.5,)),
        log=_uniform("torque noise"),
    ),
    WatchedPlant(
        name="cart-pole",
        role="development",
        make=lambda: CartPole(rate=50.0, angle_limit=0.25, start_angle=0.1, max_voltage=5.0),
        discount=0.99,
        rows=1_500,
        steps=500,
        sensor="angle",
        log=_random_voltages,
    ),
)
