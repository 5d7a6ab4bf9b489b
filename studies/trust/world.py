"""The plant of a case with its fault as a simulation of many episodes side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nopg._derived import DerivedColumns
from nopg._expressions import Expression
from studies.trust.case import NOISES, Case, Facts, random_generator, reward_formula
from studies.trust.controllers import Logger
from studies.trust.dynamics import Array
from studies.trust.faults import FAULTS, Delay, Fault, Sim

Law = Callable[[Sim], Array]
"""From states of simulations to actions (m, d_a)."""

_SENSOR_NOISE = 0.03
# Rows in which a recording becomes stationary before it is logged; rows between two repairs of it.
_SETTLING, _SERVICE = 300, 60
# Half-width of the starts, in typical deviations; factors on it of easy and hard ones.
_WIDTH, _EASY, _HARD, _PERIOD = 1.5, 0.3, 1.7, 5
# No state is farther from the target, in typical deviations.
_FARTHEST = 1e3
# Not more than this share of a log may lie beyond a boundary that it hardly shows.
_RARE = 0.012


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Simulations side by side.

    Attributes:
        seen: What the historian gets, shape (T + 1, m, d_s).
        actions: Commands, shape (T, m, d_a).
        rewards: Shape (T, m).
        sims: States of the simulations before the steps that were asked for, and after the last step.
    """

    seen: Array
    actions: Array
    rewards: Array
    sims: tuple[Sim, ...]


class World:
    """The simulation of a case.

    Args:
        case: Seed, fault and kind of log.

    Attributes:
        facts: What was drawn.
        dynamics: The plant.
        fault: What is wrong.
        logger: The controller that logs.
        formula: The reward.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.facts = case, Facts.draw(case)
        self.dynamics = self.facts.dynamics(case.seed)
        self.logger = Logger.draw(self.dynamics, self.facts.logging, self.rng("logger"))
        self.fault = self._drawn_fault()
        self.formula = reward_formula(self.facts, self.dynamics, self.rng("reward"))
        if self.fault.shares:
            self._set_boundary()
        self.formula += self.fault.penalty()

    @property
    def lags(self) -> int:
        """Number of declared lags of every action."""
        return int(self.fault.strength) if self.facts.kind == "heat exchanger" else self.facts.lags

    def begin(self, order: npt.NDArray[np.int64], progress: Array, rng: np.random.Generator) -> Sim:
        """Return simulations at starts of the plant.

        Args:
            order: Number of the episode of each, shape (m,): patterns of starts go by it.
            progress: Share of the log before each, shape (m,).
            rng: Of the starts and hidden states.
        """
        plant, wide = self.dynamics, np.ones((len(order), 1))
        drawn = rng.uniform(-1.0, 1.0, (len(order), len(plant.target)))
        if self.facts.pattern == "alternating":
            wide = np.where(order % 2 == 1, _HARD, _EASY)[:, None]
        elif self.facts.pattern == "periodic":
            drawn = 0.3 * drawn + np.sin(2 * np.pi * order / _PERIOD)[:, None]
        starts = np.maximum(plant.target + _WIDTH * wide * drawn * plant.scale, plant.least)
        sim: Sim = {"true": starts, "progress": progress[:, None]}
        self.fault.begin(sim, rng)
        sim["seen"] = self._seen(sim, rng)
        return sim

    def settled(
        self,
        sim: Sim,
        rng: np.random.Generator,
        derived: DerivedColumns | None = None,
        steps: int = _SETTLING,
    ) -> Sim:
        """Return simulations after the logging controller has run for some steps."""
        law = self.logger_law(len(sim["true"]), rng)
        return self.run(law, sim, steps, rng, derived=derived).sims[-1]

    def logged(self, keep: Sequence[int] = ()) -> Runs:
        """Return what was logged, and the states of the simulations before some steps."""
        m, steps, recording = self.facts.episodes, self.facts.steps, self.case.recording
        rng, noise = self.rng("starts"), self.rng("log")
        sim = self.begin(np.arange(m, dtype=np.int64), np.arange(m) / max(m - 1, 1), rng)
        sim = self.settled(sim, rng) if recording else sim
        progress = np.arange(steps) / steps if recording else None
        return self.run(self.logger_law(m, noise), sim, steps, noise, keep=keep, progress=progress)

    def logger_law(self, num: int, rng: np.random.Generator) -> Law:
        """Return the controller that logs, for this many simulations."""
        return self.logger.start(num, rng, self.fault.operator, changes=self.case.recording)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return a generator for one purpose."""
        return random_generator(self.case.seed, purpose)

    def run(
        self,
        law: Law,
        sim: Sim,
        steps: int,
        rng: np.random.Generator,
        *,
        derived: DerivedColumns | None = None,
        keep: Sequence[int] = (),
        progress: Array | None = None,
    ) -> Runs:
        """Run a controller, from states of simulations to actions (m, d_a), all simulations at once.

        Args:
            law: The controller.
            sim: Where the simulations begin.
            steps: Number of steps.
            rng: Of the noise.
            derived: Derived columns to keep in `states` beside those in `seen`.
            keep: Steps before which the states of the simulations are kept.
            progress: Share of the log before each step, where it is logged as one recording.
        """
        plant, wanted, kept = self.dynamics, {*keep}, []
        if "states" not in sim:
            sim = {**sim, "states": sim["seen"]}
            if derived is not None:
                sim["states"] = derived.first(sim["seen"]).astype(np.float64)
        seen, actions = [sim["seen"]], []
        for t in range(steps):
            if progress is not None:
                sim = {**sim, "progress": np.full_like(sim["progress"], progress[t])}
            if t in wanted:
                kept.append(sim)
            commands = np.clip(law(sim), plant.low, plant.high)
            sim, before = self._step(sim, commands, rng), sim["states"]
            sim["states"] = sim["seen"]
            if derived is not None:
                sim["states"] = derived.following(before, commands, sim["seen"]).astype(np.float64)
            seen.append(sim["seen"])
            actions.append(commands)
        rows = np.stack(seen)
        rewards = self.reward(rows[:-1], np.stack(actions), rows[1:])
        return Runs(rows, np.stack(actions), rewards, (*kept, sim))

    def reward(self, states: Array, actions: Array, following: Array) -> Array:
        """Return rewards (…) of what the historian gets of steps."""
        columns = {f"s{k}": states[..., k] for k in range(states.shape[-1])}
        columns |= {f"next(s{k})": following[..., k] for k in range(states.shape[-1])}
        columns |= {f"a{k}": actions[..., k] for k in range(actions.shape[-1])}
        return np.asarray(Expression(self.formula)(columns))

    def _step(self, sim: Sim, commands: Array, rng: np.random.Generator) -> Sim:
        plant, now = self.dynamics, dict(sim)
        states = plant.step(now["true"], self.fault.applied(now, commands))
        states = states + NOISES[self.facts.noise] * plant.scale * rng.normal(size=states.shape)
        states = self.fault.moved(now, states, rng)
        far = _FARTHEST * plant.scale
        now["true"] = np.clip(states, np.maximum(plant.target - far, plant.least), plant.target + far)
        now["seen"] = self._seen(now, rng)
        return now

    def _seen(self, sim: Sim, rng: np.random.Generator) -> Array:
        size = _SENSOR_NOISE if self.facts.sensor_noise else 0.0
        noise = size * self.dynamics.scale * rng.normal(size=sim["true"].shape)
        return self.fault.seen(sim, sim["true"] + noise)

    def _drawn_fault(self) -> Fault:
        rng, recording = self.rng(f"fault {self.case.fault}"), self.case.recording
        kind = Delay if self.facts.lags else FAULTS[self.case.fault]
        length = _SERVICE if recording else self.facts.steps
        fault = kind(self.dynamics, rng, length, cyclic=recording)
        if self.facts.lags:
            fault.strength = float(self.facts.lags)
        return fault

    def _set_boundary(self) -> None:
        """Place the boundary of a fault where few rows of the log without the fault are beyond."""
        away = World(replace(self.case, fault="none")).deviations()
        for share in self.fault.shares:
            self.fault.boundary = float(np.quantile(away, 1 - share))
            if float((self.deviations() > self.fault.boundary).mean()) <= _RARE:
                return

    def deviations(self) -> Array:
        """Return |deviations| of the first column in the log, shape (rows,)."""
        seen = self.logged().seen[:-1]
        return np.abs(self.dynamics.away(seen.reshape(-1, seen.shape[-1]))[:, 0])
