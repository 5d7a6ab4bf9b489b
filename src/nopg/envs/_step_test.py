"""A controller that is disturbed on purpose, so that its log can be learned from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch

from nopg._typing import as_tensor
from nopg.envs._agents import RandomAgent
from nopg.envs._simulate import ControlLaw
from nopg.errors import ArgumentError

__all__ = ["StepTest"]


@final
@dataclass(frozen=True, slots=True)
class StepTest(RandomAgent):
    """A controller with small steps added to what it asks for, as an engineer tests a plant.

    A controller by itself does the same wherever it comes to the same state, and a log of it cannot say what
    another action would have done. Steps up and down around it can, at a price: the plant runs a little worse
    while they last.

    Attributes:
        make_controller: Returns the controller for one run, whose memory starts anew with it.
        size: The largest step to either side, in the units of the actions, at least 0; the steps are uniform.
        hold: How many time steps a step lasts, at least 1.

    Example:
        >>> from nopg.envs import TwoTanks, level_controller
        >>> from nopg.envs import collect
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
        """Return the disturbed controller for one run; every episode gets steps of its own."""
        law, calls = self.make_controller(), 0
        step = torch.zeros(0, dtype=torch.float64)

        def act(states: torch.Tensor) -> torch.Tensor:
            nonlocal calls, step
            asked = as_tensor(law(states))
            if calls % self.hold == 0:
                step = self.size * (2 * torch.rand(asked.shape, dtype=torch.float64, generator=rng) - 1)
            calls += 1
            return asked + step

        return act
