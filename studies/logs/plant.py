"""A plant behind a log: hidden states, sensors, exogenous columns, its behaviour and its true returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

import nopg
from nopg._columns import Columns, Exogenous
from nopg._stream import ControllerStream
from nopg.data import Schema
from nopg.data._derive import RewardFormula
from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.calibration.plants.plant import Runs, horizon, random_generator
from studies.plants.benchmark import Returns, Role

__all__ = ["STARTS", "LogPlant", "streamed"]

STARTS = 50
"""Declared starts of every log."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogPlant(ABC):
    """A plant that a historian logs: measured columns, actions and a set point, not the hidden state.

    The log holds episodes of `logged_steps` rows under the behaviour, and declares 50 measured starts. True
    returns are means over the same 50 starts, each run several times with other noise; two controllers meet
    the same set points. Rewards are computed from measured columns, as a historian would.

    Attributes:
        name: Name on the command line.
        role: Whether settings may be chosen on it ("development") or not ("report").
        states: Unit of every measured column, by name.
        actions: Unit, lowest and highest value of every action, by name.
        discount: γ of the task.
        sizes: Rows of the logs that the study uses.
        logged_steps: Length of a logged episode; 0 for one long episode.
        steps: Length of an episode of the undiscounted return.
        reward: Formula of the reward; None where the reward is a column of the log.
        exogenous: Measured columns that no action moves, by name.
        angles: Period of measured columns that are angles, by name.
        interval: Seconds between two rows.
        lags: Earlier values of measured columns and actions that a model needs, by name, unless others are
            given: what an engineer who knows the plant would declare.
        repeats: How often a true evaluation runs each start; 1 where nothing is random.
    """

    name: str
    role: Role
    states: Mapping[str, str]
    actions: Mapping[str, tuple[str, float, float]]
    discount: float
    sizes: tuple[int, ...]
    logged_steps: int
    steps: int
    reward: str | None = None
    exogenous: Mapping[str, Exogenous] = field(default_factory=dict)
    angles: Mapping[str, float] = field(default_factory=dict)
    interval: float | None = None
    lags: Mapping[str, int] = field(default_factory=dict)
    repeats: int = 8

    @abstractmethod
    def start(self, count: int, rng: np.random.Generator) -> Any:
        """Return hidden states of this many episodes of the task."""

    @abstractmethod
    def measure(self, hidden: Any, rng: np.random.Generator) -> Array:
        """Return the measured columns (m, d_x)."""

    @abstractmethod
    def advance(self, hidden: Any, actions: Array, rng: np.random.Generator) -> Any:
        """Return the hidden states one row later; the actions (m, d_a) are within their bounds."""

    @abstractmethod
    def behaviour(self) -> Behaviour:
        """Return what makes the controllers that log the data, exploration noise included."""

    @abstractmethod
    def references(self) -> Mapping[str, Behaviour]:
        """Return what makes controllers to compare with, by name; they may know the plant."""

    def rewards(self, hidden: Any, measured: Array, actions: Array, after: Array) -> Array:
        """Return the rewards (m,) of a step, by default by the formula from measured columns."""
        del hidden
        tensors = (torch.as_tensor(part) for part in (measured, actions, after))
        return np.asarray(self._formula(*tensors).numpy())

    def terminal(self, hidden: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which hidden states end the task, shape (m,); none by default."""
        return np.zeros(len(hidden), dtype=bool)

    def log_start(self, count: int, rng: np.random.Generator) -> Any:
        """Return hidden states in which logged episodes begin, by default those of the task."""
        return self.start(count, rng)

    def declared(self, seed: int, repeats: int = 1) -> Any:
        """Return the hidden declared starts of a log, over and over."""
        hidden = self.start(STARTS, random_generator(seed, f"declared starts of {self.name}"))
        return np.tile(hidden, (repeats, 1))

    @property
    def low(self) -> Array:
        """Lowest actions, shape (d_a,)."""
        return np.array([low for _, low, _ in self.actions.values()])

    @property
    def high(self) -> Array:
        """Highest actions, shape (d_a,)."""
        return np.array([high for _, _, high in self.actions.values()])

    def run(self, law: Law, hidden: Any, steps: int, rng: np.random.Generator) -> Runs:
        """Run a controller from hidden states, all episodes side by side."""
        measured = self.measure(hidden, rng)
        m, alive = len(measured), np.ones(len(measured), dtype=bool)
        found = Runs(
            np.empty((steps + 1, *measured.shape)),
            np.zeros((steps, m, len(self.actions))),
            np.zeros((steps, m)),
            np.zeros((steps, m), dtype=bool),
            np.zeros((steps, m), dtype=bool),
        )
        found.measured[0] = measured
        for t in range(steps):
            actions = np.clip(np.asarray(law(measured), dtype=np.float64), self.low, self.high)
            moved = self.advance(hidden, actions, rng)
            after = self.measure(moved, rng)
            found.rewards[t] = np.where(alive, self.rewards(hidden, measured, actions, after), 0.0)
            found.actions[t], found.alive[t], found.measured[t + 1] = actions, alive, after
            found.ended[t] = alive & self.terminal(moved)
            hidden, measured, alive = moved, after, alive & ~found.ended[t]
            if not alive.any():
                found.measured[t + 2 :] = after
                break
        return found

    def data(self, rows: int, seed: int) -> nopg.Transitions:
        """Return the log of a seed, with the reward as a formula where it is one."""
        steps = self.logged_steps or rows
        episodes = math.ceil(rows / steps)
        while True:
            rng = random_generator(seed, f"log of {self.name}")
            runs = self.run(self.behaviour()(episodes, rng), self.log_start(episodes, rng), steps, rng)
            if runs.alive.sum() >= rows:
                break
            episodes *= 2  # episodes ended early
        starts = self.measure(self.declared(seed), random_generator(seed, "measured starts"))
        return self._transitions(runs, rows).starting_at(starts)

    def returns(self, behaviour: Behaviour, seed: int, steps: int | None = None) -> Returns:
        """Return what a controller truly returns from the declared starts of a log.

        Args:
            behaviour: Makes the controller of the episodes.
            seed: Seed of the log, and of the noise.
            steps: Length of an episode of the undiscounted return; that of the plant by default.
        """
        rng, repeats = random_generator(seed, f"truth of {self.name}"), self.repeats
        hidden, length = self.declared(seed, repeats), steps or self.steps
        law = behaviour(STARTS * repeats, random_generator(seed, "noise of the controller"))
        far = min(horizon(self.discount), 2_000)
        rewards = self.run(law, hidden, max(length, far), rng).rewards
        discounted = self.discount ** np.arange(far) @ rewards[:far]
        by_start = discounted.reshape(repeats, STARTS)
        variance = 0.0 if repeats == 1 else float(by_start.var(axis=0, ddof=1).mean())
        error = math.sqrt(variance / discounted.size)
        mean = float(rewards[:length].sum(axis=0).mean())
        return Returns(mean, float(discounted.mean()), error, discounted.size)

    def _transitions(self, runs: Runs, rows: int) -> nopg.Transitions:
        steps, m = runs.rewards.shape
        keep = np.flatnonzero(runs.alive.T.reshape(-1))[:rows]

        def column(values: Any) -> Any:
            return values.swapaxes(0, 1).reshape(steps * m, *values.shape[2:])[keep]

        episodes, ended = np.repeat(np.arange(m), steps)[keep], column(runs.ended)
        data = nopg.Transitions.from_arrays(
            column(runs.measured[:-1]),
            column(runs.actions),
            column(runs.rewards),
            column(runs.measured[1:]),
            terminated=ended,
            truncated=np.append(episodes[1:] != episodes[:-1], True) & ~ended,
            episodes=episodes,
            state_names=tuple(self.states),
            action_names=tuple(self.actions),
            angles=self.angles,
            units={**self.states, **{name: unit for name, (unit, _, _) in self.actions.items()}},
            bounds={name: (low, high) for name, (_, low, high) in self.actions.items()},
        )
        schema = replace(data.schema, exogenous=dict(self.exogenous), interval=self.interval)
        data = replace(data, schema=schema)
        return data if self.reward is None else data.with_reward(self.reward)

    @property
    def _formula(self) -> RewardFormula:
        assert self.reward is not None
        return RewardFormula(
            self.reward, Schema(tuple(self.states), tuple(self.actions), angles=dict(self.angles))
        )


def streamed(policy: Callable[[Any], Any], columns: Columns, bounds: tuple[Array, Array]) -> Behaviour:
    """Return a controller of measured columns that keeps the derived columns of a policy itself.

    Args:
        policy: Maps states (m, d_s) with derived columns to actions (m, d_a).
        columns: All columns of the policy.
        bounds: Lowest and highest actions, each (d_a,): lags hold actions as they were applied.
    """

    def make(episodes: int, rng: np.random.Generator) -> Law:
        del rng

        def within(states: Array) -> Array:
            return np.clip(np.asarray(policy(states), dtype=np.float64), *bounds)

        return ControllerStream(within, columns, batch=episodes).act

    return make
