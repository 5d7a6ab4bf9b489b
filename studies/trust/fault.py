"""What a fault may change: where an episode begins, actuator, plant, sensors, operator, reward, rows."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from studies.trust.dynamics import KINDS, Array, Dynamics

__all__ = ["Fault", "Flags", "Sim"]

Rng = np.random.Generator
Flags = npt.NDArray[np.bool_]
Sim = dict[str, Array]
"""State of m simulations side by side, true and hidden: arrays whose first axis is m, by name."""


class Fault:
    """No fault.

    Others override what they change. Arrays of a simulation are replaced, never changed.

    Args:
        dynamics: The plant.
        rng: Draws the strength.
        length: Rows of a logged episode; of a recording the rows between two repairs.
        cyclic: Whether the plant is repaired again and again, as in a recording.

    Attributes:
        strength: In a unit of its own.
        boundary: |Deviation| of the first column from which it acts.
        kinds: Kinds of plants that it needs.
        logging: Kind of logging that it needs; empty for any.
        reward_is_learned: Whether the formula of the reward stays unknown.
        pattern: Pattern of the starts that it needs; empty for any.
        episodes: Numbers of episodes that it needs; empty for any.
        shares: Of the rows beyond its boundary, the first one to try first; empty without a boundary.
        of_starts: Whether it is about the starts of episodes, which a recording has none of.
    """

    kinds: ClassVar[tuple[str, ...]] = tuple(KINDS)
    logging: ClassVar[str] = ""
    reward_is_learned: ClassVar[bool] = False
    pattern: ClassVar[str] = ""
    episodes: ClassVar[tuple[int, ...]] = ()
    shares: ClassVar[tuple[float, ...]] = ()
    of_starts: ClassVar[bool] = False

    def __init__(self, dynamics: Dynamics, rng: Rng, length: int, *, cyclic: bool = False) -> None:
        self.dynamics, self.length, self.cyclic = dynamics, length, cyclic
        self.half = (dynamics.high - dynamics.low) / 2
        self.strength, self.boundary = 0.0, math.inf
        self.draw(rng)

    def draw(self, rng: Rng) -> None:
        """Draw the strength, in units of each fault's own."""

    def begin(self, sim: Sim, rng: Rng) -> None:
        """Put hidden states into simulations that begin; `true` is there."""

    def applied(self, sim: Sim, commands: Array) -> Array:
        """Return what the plant feels (m, d_a) of commands."""
        del sim
        return commands

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        """Return true states (m, d_s) after a step that led to `states`; hidden states move too."""
        del sim, rng
        return states

    def seen(self, sim: Sim, measured: Array) -> Array:
        """Return what the historian and the controllers get of measured states (m, d_s)."""
        del sim
        return measured

    def operator(self, sim: Sim) -> Array | float:
        """Return what the logging controller adds to its actions (m, d_a)."""
        del sim
        return 0.0

    def penalty(self) -> str:
        """Return a term of the reward, a formula."""
        return ""

    def missing(self, length: int, rng: Rng) -> Flags:
        """Return which rows of an episode the historian lost, booleans (length,)."""
        del rng
        return np.zeros(length, dtype=bool)
