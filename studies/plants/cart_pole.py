"""Balancing a pole on a cart from logs of random voltages, at 50 Hz and at 500 Hz."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import CartPole, UniformAgent, collect
from studies.plants.benchmark import Benchmark, Controller, log_rows

__all__ = ["CART_POLES"]

_LOGGED_STEPS, _STARTS = 1_000, 15


@dataclass(frozen=True, kw_only=True)
class BalancedPole(Benchmark):
    """The task of the paper's experiments: uniformly random voltages within ±5 V, 15 declared starts."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return this many logged rows, the last episode cut to fit."""
        starts = self.plant.initial(_STARTS, rng=generator(seed, "starts of the task"))

        def log(episodes: int) -> Transitions:
            return collect(self.plant, UniformAgent(), episodes=episodes, steps=_LOGGED_STEPS, seed=seed)

        return log_rows(log, rows, _LOGGED_STEPS).starting_at(starts)

    def behaviour(self) -> Controller:
        """Return the random agent that logged the data."""
        law = UniformAgent().controller(generator(0, "behaviour"))
        return lambda observations: torch.as_tensor(law(torch.as_tensor(observations))).numpy()


CART_POLES: tuple[Benchmark, ...] = (
    BalancedPole(
        name="cart-pole",
        role="development",
        make_plant=lambda: CartPole(rate=50.0, angle_limit=0.25, start_angle=0.1, max_voltage=5.0),
        discount=0.99,
        sizes=(1_500, 500, 200),
        steps=10_000,
        episodes=10,
    ),
    BalancedPole(
        name="cart-pole-500hz",
        role="report",
        make_plant=lambda: CartPole(rate=500.0, angle_limit=math.radians(3.0), max_voltage=5.0),
        discount=0.99,
        sizes=(1_500,),
        steps=10_000,
        episodes=10,
    ),
)
"""10⁴ steps: at 50 Hz with a limit of .25 rad, at 500 Hz with a limit of 3°."""
