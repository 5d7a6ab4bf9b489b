"""What every benchmark offers: logged data, the behaviour that logged them, and true returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import Environment
from studies.plants.simulation import Noise, control_law, run_plant

__all__ = ["Benchmark", "Controller", "Returns", "Role", "log_rows"]

Role = Literal["development", "report"]
Controller = Callable[[npt.NDArray[np.float64]], Any]
"""Maps observations (m, d_s) to actions (m, d_a), numpy in and numpy out."""

TRUE_EPISODES = 100
_LONGEST_HORIZON = 2_000
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True, slots=True)
class Returns:
    """What a controller returned on the plant.

    Attributes:
        undiscounted: Mean sum of rewards over the episodes of the benchmark's protocol.
        discounted: Mean discounted return at the benchmark's discount.
        standard_error: Standard error of the discounted mean; 0 where there is one start and no noise.
        episodes: Number of episodes behind the discounted mean.
    """

    undiscounted: float
    discounted: float
    standard_error: float
    episodes: int


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """A plant, a way to log it, and the protocol by which controllers are compared.

    Attributes:
        name: Name on the command line.
        role: Whether defaults may be chosen on it ("development") or not ("report").
        make_plant: Builds the plant; called once, when it is first needed.
        discount: γ of the task.
        sizes: Sizes of the datasets that the studies use, in units of `unit`.
        steps: Length of an episode of the undiscounted protocol.
        episodes: Number of episodes of the undiscounted protocol.
        noise: Noise of the sensors and the actuators, absent by default.
        unit: What `sizes` counts.
    """

    name: str
    role: Role
    make_plant: Callable[[], Environment]
    discount: float
    sizes: tuple[int, ...]
    steps: int
    episodes: int
    noise: Noise = field(default_factory=Noise)
    unit: str = "rows"

    @cached_property
    def plant(self) -> Environment:
        """The plant without its noise."""
        return self.make_plant()

    @property
    def horizon(self) -> int:
        """Number of steps after which the discount leaves less than 10⁻³, at most 2 000."""
        return min(math.ceil(math.log(_NEGLIGIBLE) / math.log(self.discount)), _LONGEST_HORIZON)

    @abstractmethod
    def data(self, rows: int, seed: int) -> Transitions:
        """Return a dataset of this size with the starts of the task."""

    def behaviour(self) -> Controller | None:
        """Return the controller that logged the data, for one run; None where no controller did."""
        return None

    def behaviour_returns(self, seed: int) -> Returns | None:
        """Return the true returns of the behaviour; None where no controller logged the data."""
        controller = self.behaviour()
        return None if controller is None else self.run(controller, seed, episodes=TRUE_EPISODES)

    def run(self, policy: Controller, seed: int, *, episodes: int | None = None) -> Returns:
        """Run a controller on the plant from the starts of the task.

        All episodes are simulated side by side from step 0, once, so a controller with a memory of its own
        is run correctly if it is new.

        Args:
            policy: Maps observations (m, d_s) to actions (m, d_a).
            seed: Seed of the initial states and of the noise.
            episodes: Number of episodes, not fewer than the protocol has; by default 1 where a deterministic
                controller always returns the same, else 100.
        """
        count = (1 if self._exact else max(TRUE_EPISODES, self.episodes)) if episodes is None else episodes
        runs = run_plant(
            self.plant,
            control_law(policy),
            starts=self.starts(count, seed),
            steps=max(self.steps, self.horizon),
            noise=self.noise,
            rng=generator(seed, "noise of the plant"),
        )
        rewards = torch.where(runs.alive, runs.rewards, 0.0)
        weights = self.discount ** torch.arange(self.horizon, dtype=rewards.dtype)
        discounted = weights @ rewards[: self.horizon]
        undiscounted = rewards[: self.steps, : self.episodes].sum(dim=0)
        return Returns(
            float(undiscounted.mean()), float(discounted.mean()), self.standard_error(discounted), count
        )

    def starts(self, count: int, seed: int) -> torch.Tensor:
        """Return initial states (count, d_s) of runs, drawn from the starts of the task."""
        return self.plant.initial(count, rng=generator(seed, "true returns"))

    def standard_error(self, returns: torch.Tensor) -> float:
        """Return the standard error of the mean of the returns (m,) of one run."""
        return 0.0 if len(returns) == 1 else float(returns.std()) / math.sqrt(len(returns))

    @cached_property
    def _exact(self) -> bool:
        """Whether every run is the same: one start, no noise."""
        first, second = self.plant.initial(2, rng=generator(0, "one start or several"))
        return not self.noise and bool(torch.equal(first, second))


def log_rows(collect: Callable[[int], Transitions], rows: int, steps: int) -> Transitions:
    """Return the first rows of a log with as many episodes as it takes; episodes may end early.

    Args:
        collect: Logs a number of episodes.
        rows: How many rows to return.
        steps: Length of an episode that does not end early.
    """
    episodes = math.ceil(rows / steps)
    while len(log := collect(episodes)) < rows:
        episodes *= 2
    return log.take(torch.arange(rows))
