"""Controllers that draw their actions at random: uniform, or around another controller."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, final

import torch

from nopg._typing import as_tensor
from nopg.envs._closed_loop import ControlLaw
from nopg.envs._environment import Environment
from nopg.errors import ArgumentError


class RandomAgent(ABC):
    """A random controller, made for each run from a generator."""

    __slots__ = ()

    @abstractmethod
    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller for one run, which draws from the generator at every step.

        State that is kept from step to step belongs to that controller, not to the agent.
        """


@final
@dataclass(frozen=True, slots=True)
class UniformAgent(RandomAgent):
    """Actions drawn uniformly from a box, independent of the state.

    The default is the paper's on the cart-pole, in the ±5 V of its policies (`5 tanh(f(s))` in the
    supplement's table; the paper does not print the width of the behaviour).

    Attributes:
        low: The smallest value of each of the d_a actions, in their units.
        high: The largest, not below `low`.

    Example:
        >>> controller = UniformAgent(low=(-1.0,), high=(1.0,)).controller(torch.Generator())
        >>> controller(torch.zeros(3, 4)).shape
        torch.Size([3, 1])
    """

    low: Sequence[float] = (-5.0,)
    high: Sequence[float] = (5.0,)

    def __post_init__(self) -> None:
        low, high = as_tensor(self.low), as_tensor(self.high)
        if low.ndim != 1 or low.shape != high.shape or len(low) == 0:
            raise ArgumentError(
                f"low is {self.low} and high is {self.high}; give one number per action in both"
            )
        if not bool((low.isfinite() & high.isfinite() & (low <= high)).all()):
            raise ArgumentError(f"low is {self.low} and high is {self.high}; give finite numbers, low ≤ high")

    @classmethod
    def within(cls, environment: Environment) -> Self:
        """Return the agent of the environment's box of actions."""
        return cls(low=tuple(environment.action_low.tolist()), high=tuple(environment.action_high.tolist()))

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller that draws new actions at every step."""
        low, high = as_tensor(self.low), as_tensor(self.high)

        def act(states: torch.Tensor) -> torch.Tensor:
            draws = torch.rand(len(states), len(low), dtype=torch.float64, generator=rng)
            return low + (high - low) * draws

        return act


@final
@dataclass(frozen=True, slots=True)
class StepTest(RandomAgent):
    """A controller with random steps added to its actions, to excite the plant.

    A deterministic controller applies one action per state, so its log holds no information about other
    actions. Random steps add it, at the cost of a somewhat worse operation during the test.

    Attributes:
        make_controller: Returns a new controller for one run.
        size: Largest step to either side, in the units of the actions, at least 0; steps are uniform.
        hold: Number of time steps for which a step is held, at least 1.

    Example:
        >>> from nopg.envs import TwoTanks, collect, level_controller
        >>> tanks = TwoTanks()
        >>> test = StepTest(lambda: level_controller(tanks), size=1.0, hold=3)
        >>> len(collect(tanks, test, episodes=4, steps=60, seed=0))
        240
    """

    make_controller: Callable[[], ControlLaw]
    size: float
    hold: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.size) and self.size >= 0):
            raise ArgumentError(f"size is {self.size}; give a finite number, 0 or more")
        if self.hold < 1:
            raise ArgumentError(f"hold is {self.hold} time steps; give 1 or more")

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return the excited controller for one run; every episode has its own steps."""
        law, calls = self.make_controller(), 0
        step = torch.zeros(0, dtype=torch.float64)

        def act(states: torch.Tensor) -> torch.Tensor:
            nonlocal calls, step
            actions = as_tensor(law(states))
            if calls % self.hold == 0:
                step = self.size * (2 * torch.rand(actions.shape, dtype=torch.float64, generator=rng) - 1)
            calls += 1
            return actions + step

        return act
