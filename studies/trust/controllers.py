"""Controllers: those that log the data, with their exploration and memory, and those that are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.trust.dynamics import Array, Dynamics

Rng = np.random.Generator
# Mean number of rows after which a recording under a mixture changes its controller.
_CHANGE = 50


@dataclass(frozen=True, slots=True, eq=False)
class LinearLaw:
    """a = trim − K (s − target) + offset within the limits, of the measured columns alone.

    Attributes:
        dynamics: The plant.
        gain: K, shape (d_a, d_s).
        offset: Shape (d_a,).
    """

    dynamics: Dynamics
    gain: Array
    offset: Array | float = 0.0

    def __call__(self, states: Any) -> Array:
        """Return actions (m, d_a) at states (m, d), measured columns first."""
        plant = self.dynamics
        away = plant.away(np.asarray(states, dtype=np.float64)[:, : len(plant.target)])
        return np.clip(plant.trim - away @ self.gain.T + self.offset, plant.low, plant.high)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logger:
    """What logs the data: a = trim − f·K (s − target) − i·Σ K (s − target) + noise.

    Attributes:
        dynamics: The plant.
        kind: `random` (f = 0 where the plant stays near), `feedback` or `mixture`, with f by episode.
        gain: K, shape (d_a, d_s).
        integral: i.
        noise: Size of the exploration in half ranges of the actions, lowest and highest.
        memory: Correlation of successive normal noise; or chance that a uniform value is held.
        uniform: Whether the noise is uniform.
    """

    dynamics: Dynamics
    kind: str
    gain: Array
    integral: float
    noise: tuple[float, float]
    memory: float
    uniform: bool

    @classmethod
    def draw(cls, dynamics: Dynamics, kind: str, rng: Rng) -> Logger:
        """Return a logger of a kind."""
        gain = dynamics.gain(float(np.exp(rng.uniform(np.log(0.3), np.log(10.0)))))
        sizes = {"random": (0.6, 1.0), "feedback": (0.05, 0.3), "mixture": (0.05, 0.6)}[kind]
        size = float(rng.uniform(*sizes)) * (0.5 if dynamics.runs_away else 1.0)
        return cls(
            dynamics=dynamics,
            kind=kind,
            gain=gain,
            integral=float(rng.choice([0.0, 0.05])) if kind == "feedback" else 0.0,
            noise=(min(0.05, size) if kind == "mixture" else size, size),
            memory=float(rng.choice([0.0, 0.5, 0.8])),
            uniform=bool(rng.random() < 0.5),
        )

    def factors(self, num: int, rng: Rng) -> Array:
        """Return f of this many episodes, shape (num, 1)."""
        if self.kind == "mixture":
            return rng.uniform(*((0.7, 1.4) if self.dynamics.runs_away else (0.2, 1.6)), (num, 1))
        return np.full((num, 1), 0.0 if self.kind == "random" and not self.dynamics.runs_away else 1.0)

    def start(
        self, num: int, rng: Rng, operator: Callable[[Any], Array | float], *, changes: bool
    ) -> Callable[[Any], Array]:
        """Return the controller of this many simulations, from their state to actions (num, d_a).

        Args:
            num: Number of simulations.
            rng: Of the exploration.
            operator: What the operator adds, from the state of the simulations.
            changes: Whether a mixture changes its controller now and then.
        """
        plant, shape = self.dynamics, (num, len(self.dynamics.low))
        half = (plant.high - plant.low) / 2
        factor, size = self.factors(num, rng), rng.uniform(*self.noise, (num, 1))
        total = np.zeros(shape)

        def fresh() -> Array:
            return rng.uniform(-1.0, 1.0, shape) if self.uniform else 0.6 * rng.normal(size=shape)

        noise = fresh()

        def act(sim: Any) -> Array:
            nonlocal factor, size, total, noise
            if changes and self.kind == "mixture":
                new = rng.random((num, 1)) < 1 / _CHANGE
                factor = np.where(new, self.factors(num, rng), factor)
                size = np.where(new, rng.uniform(*self.noise, (num, 1)), size)
            asked = -plant.away(sim["seen"]) @ self.gain.T
            total = np.clip(total + self.integral * asked, -half, half)
            now = plant.trim + factor * asked + total + size * half * noise + operator(sim)
            if self.uniform:
                noise = np.where(rng.random((num, 1)) < self.memory, noise, fresh())
            else:
                noise = self.memory * noise + np.sqrt(1 - self.memory**2) * fresh()
            return np.clip(now, plant.low, plant.high)

        return act


def given_laws(logger: Logger, rng: Rng) -> dict[str, LinearLaw]:
    """Return three controllers to evaluate: near the logging one, with another gain, and a stranger."""
    plant, K = logger.dynamics, logger.gain
    soft = 0.5 if logger.kind == "random" else 1.0
    half = (plant.high - plant.low) / 2
    other = float(rng.choice([0.5, 1.5]))
    drawn = plant.gain(float(np.exp(rng.uniform(np.log(0.05), np.log(5.0)))))
    drawn = drawn * rng.normal(1.0, 0.4, K.shape) * float(np.exp(rng.normal(0.0, 0.3)))
    held = LinearLaw(plant, np.zeros_like(K), rng.uniform(-0.2, 0.2, len(half)) * half)
    stranger = ("constant", held) if rng.random() < 0.4 else ("drawn", LinearLaw(plant, drawn))
    return {
        "logger": LinearLaw(plant, soft * K),
        f"logger x {other:g}": LinearLaw(plant, other * soft * K),
        stranger[0]: stranger[1],
    }
