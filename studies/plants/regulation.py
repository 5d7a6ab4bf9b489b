"""Two small plants to regulate: a linear system with a known optimum, and two tanks under a PI controller."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg import Transitions
from nopg.envs import LQR, ControlLaw, Environment, TwoTanks, collect_uniform, level_controller
from studies.plants.benchmark import Benchmark
from studies.plants.logged import LoggedPlant, with_dither
from studies.plants.simulation import Noise

__all__ = ["REGULATOR", "TWO_TANKS"]


@dataclass(frozen=True, kw_only=True)
class Regulator(Benchmark):
    """The linear quadratic regulator of the paper's supplement; the optimum from (1, 1) is −.8509."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return transitions uniform within ±1.5 in the states and ±5 in the actions."""
        return collect_uniform(self.plant, rows, seed=seed)


REGULATOR = Regulator(
    name="lqr",
    role="development",
    make_plant=lambda: LQR(state_bound=1.5, action_bound=5.0),
    discount=0.9,
    sizes=(1_000,),
    steps=30,
    episodes=1,
)


def _level_behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    assert isinstance(plant, TwoTanks)
    return with_dither(level_controller(plant), plant, (0.5,), rng)


TWO_TANKS = LoggedPlant(
    name="two-tanks",
    role="development",
    make_plant=TwoTanks,
    discount=0.95,
    sizes=(1_000,),
    steps=60,
    episodes=100,
    noise=Noise(measurement=(0.05, 0.05, 0.0)),
    make_behaviour=_level_behaviour,
    logged_steps=60,
)
"""Level control with changing set points, logged under a PI controller with dither of .5 V."""
