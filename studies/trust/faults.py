"""What can be wrong with a log, each with a drawn strength."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from studies.trust.dynamics import KINDS, Array, Dynamics

__all__ = ["FAULTS", "Fault", "Flags", "Sim"]

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
        strengths: Between which the strength is drawn.
    """

    kinds: ClassVar[tuple[str, ...]] = tuple(KINDS)
    logging: ClassVar[str] = ""
    reward_is_learned: ClassVar[bool] = False
    pattern: ClassVar[str] = ""
    episodes: ClassVar[tuple[int, ...]] = ()
    shares: ClassVar[tuple[float, ...]] = ()
    of_starts: ClassVar[bool] = False
    strengths: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def __init__(self, dynamics: Dynamics, rng: Rng, length: int, *, cyclic: bool = False) -> None:
        self.dynamics, self.length, self.cyclic = dynamics, length, cyclic
        self.half = (dynamics.high - dynamics.low) / 2
        self.boundary = math.inf
        self.draw(rng)

    def draw(self, rng: Rng) -> None:
        """Draw the strength, in units of each fault's own."""
        self.strength = float(rng.uniform(*self.strengths))

    def begin(self, sim: Sim, rng: Rng) -> None:
        """Put hidden states into simulations that begin; `true` is there."""

    def applied(self, sim: Sim, commands: Array) -> Array:
        """Return what the plant feels (m, d_a) of commands."""
        return commands

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        """Return true states (m, d_s) after a step that led to `states`; hidden states move too."""
        return states

    def seen(self, sim: Sim, measured: Array) -> Array:
        """Return what the historian and the controllers get of measured states (m, d_s)."""
        return measured

    def operator(self, sim: Sim) -> Array | float:
        """Return what the logging controller adds to its actions (m, d_a)."""
        return 0.0

    def penalty(self) -> str:
        """Return a term of the reward, a formula."""
        return ""

    def missing(self, length: int, rng: Rng) -> Flags:
        """Return which rows of an episode the historian lost, booleans (length,)."""
        return np.zeros(length, dtype=bool)


class ManyStarts(Fault):
    """Many short episodes, alternately easy and hard."""

    pattern = "alternating"
    episodes = (100, 1_000)
    of_starts = True


class LostStarts(Fault):
    """Some starts lie beyond the boundary from which the actions can bring an unstable plant back."""

    kinds = ("unstable",)
    of_starts = True
    strengths = (1.1, 1.5)

    def begin(self, sim: Sim, rng: Rng) -> None:
        wide = sim["true"].copy()
        wide[:, 0] = rng.uniform(-self.strength, self.strength, len(wide)) * self.dynamics.boundary
        sim["true"] = wide


class Disturbance(Fault):
    """A slow load on the actuator that is not logged, and that the operator sees and compensates."""

    logging = "feedback"
    strengths = (0.1, 0.4)

    def draw(self, rng: Rng) -> None:
        super().draw(rng)
        self.memory = rng.uniform(0.8, 0.98)

    def begin(self, sim: Sim, rng: Rng) -> None:
        sim["load"] = self.strength * self.half * rng.normal(size=(len(sim["true"]), len(self.half)))

    def applied(self, sim: Sim, commands: Array) -> Array:
        return commands + sim["load"]

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        fresh = self.strength * self.half * rng.normal(size=sim["load"].shape)
        sim["load"] = self.memory * sim["load"] + np.sqrt(1 - self.memory**2) * fresh
        return states

    def operator(self, sim: Sim) -> Array:
        return -sim["load"]


class Confounding(Disturbance):
    """The operator acts on a state that is not logged and that moves the plant by itself."""

    def draw(self, rng: Rng) -> None:
        super().draw(rng)
        self.push = rng.normal(size=len(self.dynamics.target)) * 0.3 * self.dynamics.scale
        self.answer = rng.choice([-1.0, 1.0], size=len(self.half))

    def applied(self, sim: Sim, commands: Array) -> Array:
        return commands

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        pushed = states + sim["load"][:, :1] / self.half[0] * self.push
        return super().moved(sim, pushed, rng)

    def operator(self, sim: Sim) -> Array:
        return self.answer * sim["load"]


class Delay(Fault):
    """Commands reach the plant one to four rows late."""

    def draw(self, rng: Rng) -> None:
        self.strength = float(rng.integers(1, 5))

    def begin(self, sim: Sim, rng: Rng) -> None:
        queue = np.broadcast_to(self.dynamics.trim, (len(sim["true"]), int(self.strength), len(self.half)))
        sim["queue"] = queue

    def applied(self, sim: Sim, commands: Array) -> Array:
        first = sim["queue"][:, 0]
        sim["queue"] = np.concatenate([sim["queue"][:, 1:], commands[:, None]], axis=1)
        return first


class SetPoints(Delay):
    """Each episode is a change of the set point, and the actions, whose lags are declared, arrive late.

    The plant is at rest at the set point before when an episode begins; its second column is the set point.
    In a recording it changes now and then.
    """

    kinds = ("heat exchanger",)
    logging = "feedback"

    def draw(self, rng: Rng) -> None:
        self.strength = float(rng.integers(2, 7))

    def begin(self, sim: Sim, rng: Rng) -> None:
        before, after = rng.uniform(-0.6, 0.6, (2, len(sim["true"])))
        sim["true"], sim["set point"] = np.stack([before, after], axis=1), after
        at_rest = self.dynamics.known_gain
        assert at_rest is not None
        rest = -(at_rest.sum() * before)[:, None, None]
        sim["queue"] = np.broadcast_to(rest, (len(before), int(self.strength), 1))

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        if self.cyclic:
            new = rng.random(len(states)) < 1 / self.length
            sim["set point"] = np.where(new, rng.uniform(-0.6, 0.6, len(states)), sim["set point"])
        return np.stack([states[:, 0], sim["set point"]], axis=1)

    def seen(self, sim: Sim, measured: Array) -> Array:
        return np.stack([measured[:, 0], sim["set point"]], axis=1)


class RateLimit(Fault):
    """The actuator moves by a small step per row; the command is logged."""

    strengths = (0.05, 0.4)

    def begin(self, sim: Sim, rng: Rng) -> None:
        sim["position"] = np.broadcast_to(self.dynamics.trim, (len(sim["true"]), len(self.half)))

    def applied(self, sim: Sim, commands: Array) -> Array:
        limit = self.strength * self.half
        sim["position"] = sim["position"] + np.clip(commands - sim["position"], -limit, limit)
        return sim["position"]


class Backlash(RateLimit):
    """The actuator follows the command once that has left a band around it."""

    def applied(self, sim: Sim, commands: Array) -> Array:
        band = self.strength * self.half
        sim["position"] = np.clip(sim["position"], commands - band, commands + band)
        return sim["position"]


class Saturation(Fault):
    """The actuator stops before the logged command does, and nobody declared it."""

    strengths = (0.2, 0.7)

    def applied(self, sim: Sim, commands: Array) -> Array:
        trim, limit = self.dynamics.trim, self.strength * self.half
        return np.clip(commands, trim - limit, trim + limit)


class FilteredSensors(Fault):
    """Sensors are low-pass filtered."""

    strengths = (0.15, 0.6)

    def seen(self, sim: Sim, measured: Array) -> Array:
        before = sim.get("seen", measured)
        apart = self.dynamics.away(measured - before + self.dynamics.target)
        return before + self.strength * apart


class QuantisedSensors(Fault):
    """Sensors have few levels."""

    strengths = (0.1, 0.5)

    def seen(self, sim: Sim, measured: Array) -> Array:
        step = self.strength * self.dynamics.scale
        return step * np.round(measured / step)


class Ageing(Fault):
    """Actions lose effect within an episode, then it is repaired; a recording has many repairs."""

    strengths = (0.2, 0.6)

    def begin(self, sim: Sim, rng: Rng) -> None:
        sim["age"] = np.zeros((len(sim["true"]), 1))

    def applied(self, sim: Sim, commands: Array) -> Array:
        trim, age = self.dynamics.trim, sim["age"] / self.length
        sim["age"] = sim["age"] + 1.0
        if self.cyclic:
            sim["age"] = sim["age"] % self.length
        return trim + np.maximum(1.0 - self.strength * age, 0.2) * (commands - trim)


class Drift(Fault):
    """Actions lose effect, and an offset grows, from the first episode to the last."""

    def draw(self, rng: Rng) -> None:
        self.strength, self.offset = rng.uniform(0.2, 0.6), rng.uniform(-0.3, 0.3)

    def applied(self, sim: Sim, commands: Array) -> Array:
        trim, p = self.dynamics.trim, sim["progress"]
        return trim + (1.0 - self.strength * p) * (commands - trim) + self.offset * p * self.half


class DroppedSamples(Fault):
    """Rows are missing, so that some steps span two intervals and more."""

    strengths = (0.03, 0.2)

    def missing(self, length: int, rng: Rng) -> Flags:
        lost = rng.random(length) < self.strength
        lost[0] = False
        return lost


class Kicks(Fault):
    """A rare large disturbance; a log may hold none."""

    def draw(self, rng: Rng) -> None:
        self.strength, self.chance = rng.uniform(3.0, 8.0), rng.uniform(0.001, 0.005)

    def begin(self, sim: Sim, rng: Rng) -> None:
        sim["kicks"] = np.zeros((len(sim["true"]), 1))

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        size = self.strength * self.dynamics.scale * rng.choice([-1.0, 1.0], size=states.shape)
        kicked = rng.random((len(states), 1)) < self.chance
        sim["kicks"] = sim["kicks"] + kicked
        return np.where(kicked, states + size, states)


class Cliff(Fault):
    """The reward falls by much beyond a boundary that the log hardly shows."""

    reward_is_learned = True
    shares: ClassVar[tuple[float, ...]] = (0.002,)
    strengths = (10.0, 40.0)

    def penalty(self) -> str:
        return f" - {self.strength!r} * (abs(s0 - {float(self.dynamics.target[0])!r}) > {self.boundary!r})"


class Disaster(Cliff):
    """A region of large losses that is left with difficulty; about five rows of 1 000 are there."""

    shares = (0.005, 0.003, 0.002, 0.001)

    def moved(self, sim: Sim, states: Array, rng: Rng) -> Array:
        away = self.dynamics.away(states)[:, 0]
        pushed = states.copy()
        pushed[:, 0] += (
            np.where(np.abs(away) > self.boundary, np.sign(away), 0) * 0.3 * self.dynamics.scale[0]
        )
        return pushed


class RewardOffset(Fault):
    """Every reward has a large constant."""

    strengths = (100.0, 100.0)

    def penalty(self) -> str:
        return f" + {self.strength!r}"


FAULTS: Mapping[str, type[Fault]] = MappingProxyType(
    {
        "none": Fault,
        "many-starts": ManyStarts,
        "lost-starts": LostStarts,
        "disturbance": Disturbance,
        "confounding": Confounding,
        "delay": Delay,
        "set-points": SetPoints,
        "rate-limit": RateLimit,
        "backlash": Backlash,
        "saturation": Saturation,
        "filter": FilteredSensors,
        "quantised": QuantisedSensors,
        "ageing": Ageing,
        "drift": Drift,
        "dropped": DroppedSamples,
        "kicks": Kicks,
        "cliff": Cliff,
        "disaster": Disaster,
        "offset": RewardOffset,
    }
)
"""By name."""
