"""A plant logged by a controller with dither, or by random actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import ControlLaw, Environment
from studies.plants.benchmark import Benchmark, Controller, log_rows
from studies.plants.simulation import run_plant

__all__ = ["Behaviour", "LoggedPlant", "with_dither"]

Behaviour = Callable[[Environment, torch.Generator], ControlLaw]
"""Makes the controller of one run; what it remembers from step to step lives in what it returns."""

_STARTS = 50


@dataclass(frozen=True, kw_only=True)
class LoggedPlant(Benchmark):
    """A plant whose log comes from a behaviour, episode after episode.

    The logged episodes begin where those of the task do. The data declare 50 measured starts of the same
    distribution, so that the return to estimate does not depend on the few episodes of a short log. True
    returns are means over the same 50 starts, each run twice with other noise.

    Attributes:
        make_behaviour: Makes the controller that logged the data, dither included.
        logged_steps: Length of a logged episode that does not end early.
    """

    make_behaviour: Behaviour
    logged_steps: int

    def data(self, rows: int, seed: int) -> Transitions:
        """Return a log of this many rows, the last episode cut to fit."""
        starts = self.noise.measured(self.starts(_STARTS, seed), generator(seed, "measured starts"))
        return log_rows(lambda episodes: self._log(episodes, seed), rows, self.logged_steps).starting_at(
            starts
        )

    def starts(self, count: int, seed: int) -> torch.Tensor:
        """Return initial states (count, d_s): those that the data of this seed declare, over and over."""
        declared = self.plant.initial(_STARTS, rng=generator(seed, "declared starts"))
        return declared.repeat(math.ceil(count / _STARTS), 1)[:count]

    def standard_error(self, returns: torch.Tensor) -> float:
        """Return the standard error of the mean of returns (m,) over the noise, the starts being given."""
        by_start = returns.reshape(-1, _STARTS)
        return math.sqrt(float(by_start.var(dim=0).mean()) / len(returns))

    def behaviour(self) -> Controller:
        """Return the controller that logged the data, dither included, for one run."""
        law = self.make_behaviour(self.plant, generator(0, "behaviour"))
        return lambda observations: torch.as_tensor(law(torch.as_tensor(observations))).numpy()

    def _log(self, episodes: int, seed: int) -> Transitions:
        rng = generator(seed, "log")
        runs = run_plant(
            self.plant,
            self.make_behaviour(self.plant, rng),
            starts=self.plant.initial(episodes, rng=rng),
            steps=self.logged_steps,
            noise=self.noise,
            rng=rng,
        )
        return runs.transitions(self.plant)


def with_dither(
    law: ControlLaw, plant: Environment, sizes: tuple[float, ...], rng: torch.Generator
) -> ControlLaw:
    """Return a controller with normal noise on its actions, clipped to what the plant accepts.

    Args:
        law: The controller.
        plant: The plant, which clips the actions.
        sizes: Standard deviation of the noise on each action.
        rng: Source of the noise.
    """
    scale = torch.tensor(sizes, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        asked = torch.as_tensor(law(states), dtype=torch.float64)
        return plant.applied(asked + scale * torch.randn(asked.shape, dtype=torch.float64, generator=rng))

    return act
