"""A plant as a vectorised simulation, and the controllers that log it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from nopg import Transitions
from studies.plants.laws import Array, Behaviour, Feedback, RandomSteps, StaticLaw

Rates = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Episodes of a plant side by side."""

    measured: Array  # Measured states, shape (T + 1, m, d_s).
    actions: Array  # Applied actions, shape (T, m, d_a).
    rewards: Array  # 0 after an episode has ended, shape (T, m).
    alive: npt.NDArray[np.bool_]  # Whether the episode had not ended before, shape (T, m).
    ended: npt.NDArray[np.bool_]  # Whether the step ended the task, shape (T, m).


@dataclass(frozen=True, kw_only=True, eq=False)
class Plant:
    """A plant with noise, the task on it and the controllers that log it.

    All states are measured. Where the sensors are noisy, controllers act on measured states, logged or
    evaluated alike, and the reward is computed from measured states, as a historian would; the truth is the
    mean of these rewards. Limits and ends of a task go by the true state.

    The task is to hold `target` with the action `trim`. The reward is −Σ price·(deviation of a state)²
    − Σ price·(deviation of an action)², unless `reward` is given.
    """

    name: str  # Name on the command line.
    states: Mapping[str, str]  # Unit of every state column, by name.
    # Unit, lowest and highest value of every action, by name.
    actions: Mapping[str, tuple[str, float, float]]
    rates: Rates  # Time derivative (m, d_s) at states (m, d_s) and actions (m, d_a).
    time_step: float  # Time between two rows, in the unit of the rates.
    substeps: int = 2  # Runge-Kutta steps within a time step.
    target: tuple[float, ...]  # State to hold, shape (d_s,).
    trim: tuple[float, ...]  # Action that holds it, shape (d_a,).
    prices: tuple[float, ...]  # Price of the squared deviation of each state.
    action_prices: tuple[float, ...]  # Price of the squared deviation of each action.
    start_low: tuple[float, ...]  # Lowest start of the uniform distribution of starts, shape (d_s,).
    start_high: tuple[float, ...]  # Highest start.
    # Period of state columns that are angles, by name.
    angles: Mapping[str, float] = field(default_factory=dict)
    # Standard deviation of what is added to each state in a step; empty for none.
    process_noise: tuple[float, ...] = ()
    sensor_noise: tuple[float, ...] = ()  # Standard deviation of each measured state; empty for none.
    # From measured states, actions and measured next states; None for the quadratic one.
    reward: Callable[[Array, Array, Array], Array] | None = None
    # Puts true states back within what is physically possible; None for no limits.
    limit: Callable[[Array], Array] | None = None
    # Which true states end the task; None for none.
    terminal: Callable[[Array], npt.NDArray[np.bool_]] | None = None
    # Integral gain of the PI controller, shape (d_a, d_s); None where none logs the plant.
    integral: tuple[tuple[float, ...], ...] | None = None
    proportional: tuple[tuple[float, ...], ...] | None = None  # Its proportional gain, shape (d_a, d_s).
    spread: tuple[float, ...] | None = None  # Half-width of its uniform random set points, shape (d_s,).
    every: int = 50  # Mean number of steps after which its set point changes.
    dither: float = 0.1  # Noise of behaviours with dither, as a share of the range of actions.
    hold: int = 3  # Mean number of steps for which random actions are held.
    reach: float = 1.0  # Random actions lie within this share of the range on either side of trim.

    @cached_property
    def action_low(self) -> Array:
        """Lowest actions, shape (d_a,)."""
        return np.array([low for _, low, _ in self.actions.values()])

    @cached_property
    def action_high(self) -> Array:
        """Highest actions, shape (d_a,)."""
        return np.array([high for _, _, high in self.actions.values()])

    @cached_property
    def periods(self) -> Array:
        """Period of every state column that is an angle, 0 for others."""
        return np.array([self.angles.get(name, 0.0) for name in self.states])

    def starts(self, count: int, rng: np.random.Generator) -> Array:
        """Return true initial states (count, d_s) of the task."""
        return rng.uniform(self.start_low, self.start_high, (count, len(self.states)))

    def measure(self, states: Array, rng: np.random.Generator) -> Array:
        """Return states (m, d_s) as the sensors give them."""
        return _with_noise(states, self.sensor_noise, rng)

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, d_s) one time step later, without noise and limits."""
        dt = self.time_step / self.substeps
        for _ in range(self.substeps):
            k_1 = self.rates(states, actions)
            k_2 = self.rates(states + dt / 2 * k_1, actions)
            k_3 = self.rates(states + dt / 2 * k_2, actions)
            k_4 = self.rates(states + dt * k_3, actions)
            states = states + dt / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
        return states

    def run(self, law: Callable[[Any], Any], starts: Array, steps: int, rng: np.random.Generator) -> Runs:
        """Run a controller from true initial states (m, d_s), all episodes side by side."""
        m = len(starts)
        measured = np.empty((steps + 1, m, len(self.states)))
        actions = np.empty((steps, m, len(self.actions)))
        rewards, alive, ended = np.zeros((steps, m)), np.ones((steps, m), bool), np.zeros((steps, m), bool)
        states, going = starts, np.ones(m, bool)
        measured[0] = self.measure(states, rng)
        for t in range(steps):
            actions[t] = np.clip(np.asarray(law(measured[t])), self.action_low, self.action_high)
            states = _with_noise(self.step(states, actions[t]), self.process_noise, rng)
            states = states if self.limit is None else self.limit(states)
            measured[t + 1] = self.measure(states, rng)
            alive[t] = going
            rewards[t] = np.where(going, self._rewards(measured[t], actions[t], measured[t + 1]), 0.0)
            if self.terminal is not None:
                ended[t] = going & self.terminal(states)
                going = going & ~ended[t]
        return Runs(measured, actions, rewards, alive, ended)

    def behaviour(self, name: str) -> Behaviour:
        """Return the controller that logs the data."""
        if name == "random":
            half = 0.5 * self.reach * (self.action_high - self.action_low)
            trim = np.array(self.trim)
            low, high = (np.clip(trim + s * half, self.action_low, self.action_high) for s in (-1, 1))
            return RandomSteps(low=low, high=high, every=self.hold)
        dither = self.dither * (self.action_high - self.action_low) if name == "pi+dither" else None
        spread = None if self.spread is None else np.array(self.spread)
        return Feedback(
            law=self.law(np.array(self.proportional)),
            integral=np.array(self.integral),
            spread=spread,
            every=self.every,
            dither=dither,
        )

    def law(self, gain: Array) -> StaticLaw:
        """Return a linear controller without memory."""
        return StaticLaw(
            gain=gain,
            target=np.array(self.target),
            trim=np.array(self.trim),
            low=self.action_low,
            high=self.action_high,
            periods=self.periods,
        )

    def gain(self, softness: float = 1.0) -> Array:
        """Return the gains (d_a, d_s) that are optimal for small deviations without discount."""
        A, B = self._linearised
        Q, R = np.diag(self.prices), softness * np.diag(self.action_prices)
        X = linalg.solve_discrete_are(A, B, Q + 1e-9 * np.eye(len(A)), R)
        return np.asarray(np.linalg.solve(R + B.T @ X @ B, B.T @ X @ A))

    def transitions(self, runs: Runs, rows: int) -> Transitions:
        """Return the first rows of runs, episode after episode, as a log."""
        steps, m = runs.rewards.shape
        keep = np.flatnonzero(runs.alive.T.reshape(-1))[:rows]

        def column(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return values.swapaxes(0, 1).reshape(steps * m, *values.shape[2:])[keep]

        episodes = np.repeat(np.arange(m), steps)[keep]
        terminated = column(runs.ended)
        last = np.append(episodes[1:] != episodes[:-1], True)
        units = {name: unit for name, (unit, _, _) in self.actions.items()}
        return Transitions.from_arrays(
            column(runs.measured[:-1]),
            column(runs.actions),
            column(runs.rewards),
            column(runs.measured[1:]),
            terminated=terminated,
            truncated=last & ~terminated,
            episodes=episodes,
            state_names=tuple(self.states),
            action_names=tuple(self.actions),
            angles=self.angles,
            units={**self.states, **units},
            bounds={name: (low, high) for name, (_, low, high) in self.actions.items()},
        )

    @cached_property
    def _linearised(self) -> tuple[Array, Array]:
        """A and B of small deviations from the target, by central differences of a step."""
        d_s, d_a = len(self.states), len(self.actions)
        point = np.concatenate([self.target, self.trim])
        scale = 1e-4 * np.concatenate(
            [np.subtract(self.start_high, self.start_low), self.action_high - self.action_low]
        )
        moves = np.diag(np.where(scale > 0, scale, 1e-4))
        up, down = (point + s * moves for s in (1, -1))
        apart = self.step(up[:, :d_s], up[:, d_s:]) - self.step(down[:, :d_s], down[:, d_s:])
        slopes = (apart / (2 * np.diag(moves)[:, None])).T
        assert slopes.shape == (d_s, d_s + d_a)
        return slopes[:, :d_s], slopes[:, d_s:]

    def _rewards(self, states: Array, actions: Array, next_states: Array) -> Array:
        if self.reward is not None:
            return self.reward(states, actions, next_states)
        away, asked = states - np.array(self.target), actions - np.array(self.trim)
        return np.asarray(-(away**2 @ np.array(self.prices)) - asked**2 @ np.array(self.action_prices))


@dataclass(frozen=True, kw_only=True, eq=False)
class DelayedPlant(Plant):
    """A plant with one action; the last `delay` columns of its state are that of 1, 2, … samples ago."""

    # Samples between asking for an action and its effect. `rates` sees the other states and the action that
    # has arrived.
    delay: int

    def step(self, states: Array, actions: Array) -> Array:
        """Return true states (m, d_s) one time step later, without noise and limits."""
        own, earlier = states[:, : -self.delay], states[:, -self.delay :]
        moved = super().step(own, earlier[:, -1:])
        return np.concatenate([moved, actions, earlier[:, :-1]], axis=1)


def end_stop(states: Array, position: int, velocity: int, bounds: tuple[float, float]) -> Array:
    """Return states (m, d_s) with a position within bounds; at a bound it does not move outwards."""
    low, high = bounds
    x, v = states[:, position], states[:, velocity]
    result = states.copy()
    result[:, position] = np.clip(x, low, high)
    result[:, velocity] = np.where(x <= low, np.maximum(v, 0.0), np.where(x >= high, np.minimum(v, 0.0), v))
    return result


def random_generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a generator for one purpose; the same seed and purpose give the same stream."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def horizon(discount: float) -> int:
    """Return the number of steps after which a discount leaves less than 10⁻⁴."""
    return math.ceil(math.log(1e-4) / math.log(discount))


def _with_noise(values: Array, sizes: tuple[float, ...], rng: np.random.Generator) -> Array:
    return values + rng.normal(size=values.shape) * np.array(sizes) if any(sizes) else values
