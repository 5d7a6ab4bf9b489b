"""Controllers that log the data, with their memory, and laws without memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nopg.envs import TwoTanks

Array = npt.NDArray[np.float64]
Law = Callable[[Array], Array]
"""Maps measured states (m, d_s) to actions (m, d_a)."""
Behaviour = Callable[[int, np.random.Generator], Law]
"""Makes the controller of m episodes that run side by side; its memory lives in what it returns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StaticLaw:
    """u = trim − gain·(s − target) within bounds."""

    gain: Array  # Shape (d_a, d_s).
    target: Array  # State to hold, shape (d_s,).
    trim: Array  # Action that holds it, shape (d_a,).
    low: Array  # Lowest actions, shape (d_a,).
    high: Array  # Highest actions, shape (d_a,).
    periods: Array  # Period of every state column that is an angle, 0 for others, shape (d_s,).

    def __call__(self, states: Array) -> Array:
        """Return actions (m, d_a) at states (m, d_s)."""
        asked = -wrapped(np.asarray(states, dtype=np.float64) - self.target, self.periods) @ self.gain.T
        return np.clip(self.trim + asked, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feedback:
    """A logging controller: u = trim + gain·e + integral·Σe + dither, with e = set point − measured state."""

    law: StaticLaw  # The static part; its target is the set point, if that does not change.
    # Gain of the sum of deviations, shape (d_a, d_s); None for none. The sum is not logged.
    integral: Array | None = None
    # Half-width of the uniform set points around the target, shape (d_s,); None for none.
    spread: Array | None = None
    every: int = 50  # Mean number of steps after which the set point changes; the first is drawn at step 0.
    # Standard deviation of normal noise on each action, shape (d_a,); None for none.
    dither: Array | None = None

    def __call__(self, episodes: int, rng: np.random.Generator) -> Law:
        """Return the controller of this many episodes."""
        law = self.law
        shift = np.zeros((episodes, len(law.target)))
        total = np.zeros((episodes, len(law.trim)))
        first = True

        def act(states: Array) -> Array:
            nonlocal shift, total, first
            if self.spread is not None:
                changes = (rng.random(episodes) < 1 / self.every) | first
                drawn = rng.uniform(-1.0, 1.0, shift.shape) * self.spread
                shift = np.where(changes[:, None], drawn, shift)
            first = False
            error = -wrapped(states - law.target - shift, law.periods)
            asked = law.trim + error @ law.gain.T + total
            if self.integral is not None:
                # No winding up: the sum stops where the action is at a bound.
                free = (asked > law.low) & (asked < law.high)
                total = total + np.where(free, error @ self.integral.T, 0.0)
            if self.dither is not None:
                asked = asked + rng.normal(size=asked.shape) * self.dither
            return np.clip(asked, law.low, law.high)

        return act


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomSteps:
    """A logging controller that holds uniform random actions for some steps."""

    low: Array  # Lowest actions, shape (d_a,).
    high: Array  # Highest actions, shape (d_a,).
    every: int = 1  # Mean number of steps for which an action is held; 1 for a new one at each step.

    def __call__(self, episodes: int, rng: np.random.Generator) -> Law:
        """Return the controller of this many episodes."""
        held: Array | None = None

        def act(states: Array) -> Array:
            nonlocal held
            drawn = rng.uniform(self.low, self.high, (episodes, len(self.low)))
            changes = rng.random((episodes, 1)) < 1 / self.every
            held = drawn if held is None else np.where(changes, drawn, held)
            return held

        return act


def wrapped(differences: Array, periods: Array) -> Array:
    """Return differences of states (m, d_s), those of angles within half a period of 0."""
    turns = np.round(differences / np.where(periods > 0, periods, 1.0))
    return differences - np.where(periods > 0, periods * turns, 0.0)


def level_controller(tanks: TwoTanks) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a PI controller of the lower level for one run, from states (m, 3) to voltages (m, 1).

    V = K·e + I, and I grows by K·e·Δt/T unless the pump is at a bound. By the SIMC rules (Skogestad 2003),
    linearised at the middle of the set points: the gain is 2h/V, the lag τ = T₁ + T₂/2 and the delay
    θ = T₂/2 + Δt/2 of the tanks, K = τ/(gain·2θ), T = min(τ, 8θ). I starts at what holds the level.
    """
    level = sum(tanks.set_points) / 2
    upper = tanks.upper_area / tanks.upper_outlet * math.sqrt(2 * tanks.upper_level_at(level) / tanks.gravity)
    lower = tanks.lower_area / tanks.lower_outlet * math.sqrt(2 * level / tanks.gravity)
    slow, fast = max(upper, lower), min(upper, lower)
    lag, delay = slow + fast / 2, (fast + tanks.time_step) / 2
    gain = lag / (2 * level / tanks.voltage_at(level) * 2 * delay)
    integral_time = min(lag, 8 * delay)
    integral = torch.empty(0, dtype=torch.float64)

    def voltages(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        low, high = tanks.action_low, tanks.action_high
        if len(integral) == 0:
            integral = tanks.voltage_at(1.0) * states[:, 1].sqrt()
        error = states[:, 2] - states[:, 1]
        voltage = gain * error + integral
        winding = ((voltage > high) & (error > 0)) | ((voltage < low) & (error < 0))
        integral = torch.where(winding, integral, integral + gain * error * tanks.time_step / integral_time)
        return voltage.clamp(low, high)[:, None]

    return voltages
