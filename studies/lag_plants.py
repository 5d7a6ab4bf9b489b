"""Ten kinds of small plants with dead times, each with constants to develop on and constants to report on."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from nopg import Transitions

__all__ = ["PLANTS", "DelayedPlant", "Log", "Role"]

Array = npt.NDArray[np.float64]
Role = Literal["development", "report"]
Log = Literal["loop", "steps"]
# Mean number of rows between two set points of the loop, and for which a random step is held.
_SET_POINT_ROWS, _HOLD = 150, (5, 40)
_WARM_UP = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DelayedPlant:
    """A plant in discrete time whose actions reach it late.

    Attributes:
        name: Name of the plant.
        role: Whether constants were chosen on it.
        states: Names of the measured columns.
        actions: Names of the actions.
        delays: Dead time of every action in steps: 0 if the next row already shows it.
        step: Next hidden state from the hidden state, the actions that arrive and standard normal noise.
        start: First hidden state.
        measured: Which hidden states are measured.
        sensor: Standard deviation of the noise of every sensor.
        center: Actions about which the log is made.
        reach: How far random steps go from there.
        gains: Proportional and integral gain of every action's loop.
        controlled: Measured column that each loop controls.
        target: About which value its set point moves, and how far.
        dither: Standard deviation of what the operator adds to the actions of the loop.
        pull: Feedback that keeps an unstable plant in range under random steps, per loop.
        angles: Measured columns that are angles.
        exogenous: Measured columns that no action moves.
    """

    name: str
    role: Role
    states: tuple[str, ...]
    actions: tuple[str, ...]
    delays: tuple[int, ...]
    step: Callable[[Array, Array, Array], Array]
    start: tuple[float, ...]
    measured: tuple[int, ...]
    sensor: tuple[float, ...]
    center: tuple[float, ...]
    reach: tuple[float, ...]
    gains: tuple[tuple[float, float], ...]
    controlled: tuple[int, ...]
    target: tuple[tuple[float, float], ...]
    dither: tuple[float, ...]
    pull: float = 0.0
    angles: tuple[str, ...] = ()
    exogenous: tuple[str, ...] = ()

    def log(self, kind: Log, rows: int, seed: int) -> Transitions:
        """Return one run of so many rows under PI loops with dither, or under random steps."""
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.name} {self.role} {kind}".encode())])
        law = _PI(self, rng) if kind == "loop" else _RandomSteps(self, rng)
        late = max(self.delays)
        x, sent = np.array(self.start), [np.array(self.center)] * (late + 1)
        seen, applied = list[Array](), list[Array]()
        for _ in range(_WARM_UP + rows + 1):
            y = x[list(self.measured)] + np.array(self.sensor) * rng.standard_normal(len(self.sensor))
            seen.append(y)
            sent = [*sent[-late - 1 :], law(y)]
            applied.append(sent[-1])
            arriving = np.array([sent[-1 - delay][k] for k, delay in enumerate(self.delays)])
            x = self.step(x, arriving, rng.standard_normal(len(x)))
        states, actions = np.array(seen)[_WARM_UP:], np.array(applied)[_WARM_UP:-1]
        data = Transitions.from_arrays(
            states[:-1],
            actions,
            np.zeros(rows),
            states[1:],
            episodes=np.zeros(rows, dtype=np.int64),
            state_names=self.states,
            action_names=self.actions,
            angles=list(self.angles),
        )
        return replace(data, schema=replace(data.schema, exogenous=dict.fromkeys(self.exogenous, "log")))


class _PI:
    """PI loops in velocity form with moving set points and white dither."""

    def __init__(self, plant: DelayedPlant, rng: np.random.Generator) -> None:
        self._plant, self._rng = plant, rng
        self._targets, self._spans = (np.array(part) for part in zip(*plant.target, strict=True))
        self._goal = self._targets.copy()
        self._held = np.array(plant.center)
        self._error: Array | None = None

    def __call__(self, y: Array) -> Array:
        plant, rng = self._plant, self._rng
        moves = rng.random(len(self._goal)) < 1.0 / _SET_POINT_ROWS
        drawn = self._targets + self._spans * rng.uniform(-1.0, 1.0, len(moves))
        self._goal = np.where(moves, drawn, self._goal)
        error = self._goal - y[list(plant.controlled)]
        change = error - (error if self._error is None else self._error)
        proportional, integral = (np.array(part) for part in zip(*plant.gains, strict=True))
        center, reach = np.array(plant.center), 1.5 * np.array(plant.reach)
        moved = self._held + proportional * change + integral * error
        self._held, self._error = np.clip(moved, center - reach, center + reach), error
        noise: Array = np.array(plant.dither) * rng.standard_normal(len(plant.dither))
        return self._held + noise


class _RandomSteps:
    """Uniform random actions, each held for a random number of rows."""

    def __init__(self, plant: DelayedPlant, rng: np.random.Generator) -> None:
        self._plant, self._rng = plant, rng
        self._left = np.zeros(len(plant.actions), dtype=np.int64)
        self._held = np.array(plant.center)

    def __call__(self, y: Array) -> Array:
        plant, rng = self._plant, self._rng
        center, reach = np.array(plant.center), np.array(plant.reach)
        apart = y[list(plant.controlled)] - np.array([one for one, _ in plant.target])
        drawn = center + reach * rng.uniform(-1.0, 1.0, len(center)) - plant.pull * apart
        length = rng.integers(*_HOLD, len(center), endpoint=True)
        over = self._left == 0
        self._held = np.where(over, np.clip(drawn, center - reach, center + reach), self._held)
        self._left = np.where(over, length, self._left) - 1
        return self._held


def _tank(role: Role, delay: int, lag: float, gain: float, noise: tuple[float, float]) -> DelayedPlant:
    """Return a first-order plant with a measured level."""
    a = np.exp(-1.0 / lag)

    def step(x: Array, u: Array, w: Array) -> Array:
        after: Array = a * x + (1.0 - a) * gain * u + noise[0] * w
        return after

    return DelayedPlant(
        name="tank", role=role, states=("level",), actions=("valve",), delays=(delay,), step=step,
        start=(0.0,), measured=(0,), sensor=(noise[1],), center=(0.0,), reach=(1.0,),
        gains=((0.5 * lag / (gain * (delay + 3)), 0.5 / (gain * (delay + 3))),), controlled=(0,),
        target=((0.0, 0.5 * gain),), dither=(0.15,),
    )  # fmt: skip


def _second_order(role: Role, delay: int, period: float, damping: float, noise: float) -> DelayedPlant:
    """Return an oscillator of which only the position is measured."""
    w0 = 2.0 * np.pi / period

    def step(x: Array, u: Array, w: Array) -> Array:
        for _ in range(10):
            force = w0**2 * (u[0] - x[0]) - 2.0 * damping * w0 * x[1]
            x = x + 0.1 * np.array([x[1] + 0.1 * force, force])
        after: Array = x + noise * w * np.array([0.0, w0])
        return after

    return DelayedPlant(
        name="second-order", role=role, states=("position",), actions=("force",), delays=(delay,), step=step,
        start=(0.0, 0.0), measured=(0,), sensor=(noise / 2,), center=(0.0,), reach=(1.0,),
        gains=((0.1, 0.6 / (period + 3 * delay)),), controlled=(0,), target=((0.0, 0.5),), dither=(0.2,),
    )  # fmt: skip


def _integrator(role: Role, delay: int, rate: float, noise: tuple[float, float]) -> DelayedPlant:
    """Return a level that sums inflow less an unmeasured, slowly changing outflow."""

    def step(x: Array, u: Array, w: Array) -> Array:
        outflow = 0.98 * x[1] + 0.02 * w[1]
        return np.array([x[0] + rate * (u[0] - outflow) + noise[0] * w[0], outflow])

    return DelayedPlant(
        name="integrator", role=role, states=("level",), actions=("inflow",), delays=(delay,), step=step,
        start=(0.0, 0.0), measured=(0,), sensor=(noise[1],), center=(0.0,), reach=(1.0,),
        gains=((0.4 / (rate * (delay + 2)), 0.02 / (rate * (delay + 2) ** 2)),), controlled=(0,),
        target=((0.0, 2.0 * rate * (delay + 5)),), dither=(0.2,), pull=0.02 / rate,
    )  # fmt: skip


def _two_tanks(role: Role, delay: int, rates: tuple[float, float], noise: float) -> DelayedPlant:
    """Return two tanks in series with outflows by the square root of the level, both levels measured."""

    def step(x: Array, u: Array, w: Array) -> Array:
        upper, lower = np.sqrt(np.maximum(x, 0.0))
        moved = x + np.array([rates[0] * (u[0] - upper), rates[1] * (upper - lower)])
        after: Array = np.maximum(moved + noise * w, 0.0)
        return after

    return DelayedPlant(
        name="two-tanks", role=role, states=("upper", "lower"), actions=("pump",), delays=(delay,), step=step,
        start=(1.0, 1.0), measured=(0, 1), sensor=(noise, noise), center=(1.0,), reach=(0.4,),
        gains=((0.5, 0.1 / (delay + 2.0 / rates[1])),), controlled=(1,), target=((1.0, 0.3),), dither=(0.05,),
    )  # fmt: skip


def _heat_exchanger(role: Role, delay: int, rate: float, noise: float) -> DelayedPlant:
    """Return an outlet temperature that a coolant flow lowers, with a measured inlet temperature."""

    def step(x: Array, u: Array, w: Array) -> Array:
        inlet = 80.0 + 0.99 * (x[1] - 80.0) + 0.3 * w[1]
        outlet = x[0] + rate * (inlet - x[0]) - rate * u[0] * (x[0] - 15.0) + noise * w[0]
        return np.array([outlet, inlet])

    return DelayedPlant(
        name="heat-exchanger", role=role, states=("outlet", "inlet"), actions=("coolant",), delays=(delay,),
        step=step, start=(50.0, 80.0), measured=(0, 1), sensor=(noise, noise), center=(1.0,), reach=(0.4,),
        gains=((-0.02, -0.02 * rate),), controlled=(0,), target=((50.0, 4.0),), dither=(0.05,),
        exogenous=("inlet",),
    )  # fmt: skip


def _valve(role: Role, delay: int, lag: float, ratio: float, noise: float) -> DelayedPlant:
    """Return a first-order plant behind an equal-percentage valve."""
    a = np.exp(-1.0 / lag)

    def step(x: Array, u: Array, w: Array) -> Array:
        flow = ratio ** (np.clip(u, 0.0, 1.0) - 1.0)
        after: Array = a * x + (1.0 - a) * flow + noise * w
        return after

    return DelayedPlant(
        name="nonlinear-valve", role=role, states=("flow",), actions=("opening",), delays=(delay,), step=step,
        start=(0.3,), measured=(0,), sensor=(noise,), center=(0.6,), reach=(0.35,),
        gains=((0.3, 0.6 / (lag + 2 * delay)),), controlled=(0,), target=((0.4, 0.2),), dither=(0.05,),
    )  # fmt: skip


def _pendulum(role: Role, delay: int, stiffness: float, damping: float, noise: float) -> DelayedPlant:
    """Return a hanging pendulum with a measured angle and velocity."""

    def step(x: Array, u: Array, w: Array) -> Array:
        velocity = x[1] + stiffness * (u[0] - np.sin(x[0])) - damping * x[1] + noise * w[1]
        return np.array([x[0] + velocity, velocity])

    return DelayedPlant(
        name="pendulum", role=role, states=("angle", "velocity"), actions=("torque",), delays=(delay,),
        step=step, start=(0.0, 0.0), measured=(0, 1), sensor=(noise, noise), center=(0.0,), reach=(0.8,),
        gains=((0.05, 0.01),), controlled=(0,), target=((0.0, 0.4),), dither=(0.15,), angles=("angle",),
    )  # fmt: skip


def _two_inputs(role: Role, delays: tuple[int, int], lags: tuple[float, float], noise: float) -> DelayedPlant:
    """Return two coupled first-order columns, each moved by both actions."""
    a = np.exp(-1.0 / np.array(lags))

    def step(x: Array, u: Array, w: Array) -> Array:
        after: Array = a * x + (1.0 - a) * np.array([u[0] + 0.5 * u[1], 0.3 * u[0] - u[1]]) + noise * w
        return after

    return DelayedPlant(
        name="two-inputs", role=role, states=("top", "bottom"), actions=("reflux", "steam"), delays=delays,
        step=step, start=(0.0, 0.0), measured=(0, 1), sensor=(noise, noise), center=(0.0, 0.0),
        reach=(1.0, 1.0), gains=((0.4, 0.3 / (lags[0] + delays[0])), (-0.4, -0.3 / (lags[1] + delays[1]))),
        controlled=(0, 1), target=((0.0, 0.4), (0.0, 0.4)), dither=(0.15, 0.15),
    )  # fmt: skip


def _slow_loop(role: Role, delay: int, lag: float, noise: float) -> DelayedPlant:
    """Return a slow plant with a wandering load under a slow loop with little dither."""
    a = np.exp(-1.0 / lag)

    def step(x: Array, u: Array, w: Array) -> Array:
        load = 0.995 * x[1] + 0.03 * w[1]
        return np.array([a * x[0] + (1.0 - a) * (2.0 * u[0] + load) + noise * w[0], load])

    return DelayedPlant(
        name="slow-loop", role=role, states=("temperature",), actions=("heater",), delays=(delay,), step=step,
        start=(0.0, 0.0), measured=(0,), sensor=(noise,), center=(0.0,), reach=(1.0,),
        gains=((0.15 * lag / (delay + 3), 0.15 / (delay + 3)),), controlled=(0,), target=((0.0, 0.8),),
        dither=(0.05,),
    )  # fmt: skip


def _named(plant: DelayedPlant, name: str) -> DelayedPlant:
    return replace(plant, name=name)


PLANTS: tuple[DelayedPlant, ...] = (
    _tank("development", 4, 12.0, 1.0, (0.01, 0.01)),
    _second_order("development", 6, 30.0, 0.4, 0.01),
    _integrator("development", 9, 0.05, (0.005, 0.01)),
    _two_tanks("development", 3, (0.1, 0.05), 0.003),
    _heat_exchanger("development", 12, 0.05, 0.1),
    _valve("development", 8, 15.0, 20.0, 0.005),
    _pendulum("development", 2, 0.04, 0.05, 0.002),
    _two_inputs("development", (5, 14), (10.0, 20.0), 0.01),
    _named(_tank("development", 0, 20.0, 1.0, (0.0, 0.1)), "noisy-sensor"),
    _slow_loop("development", 17, 80.0, 0.01),
    _tank("report", 7, 8.0, 2.0, (0.02, 0.01)),
    _second_order("report", 3, 22.0, 0.6, 0.015),
    _integrator("report", 5, 0.08, (0.006, 0.015)),
    _two_tanks("report", 10, (0.15, 0.08), 0.004),
    _heat_exchanger("report", 6, 0.08, 0.15),
    _valve("report", 13, 10.0, 30.0, 0.004),
    _pendulum("report", 4, 0.06, 0.08, 0.003),
    _two_inputs("report", (1, 8), (14.0, 7.0), 0.015),
    _named(_tank("report", 2, 15.0, 1.5, (0.0, 0.12)), "noisy-sensor"),
    _slow_loop("report", 20, 60.0, 0.008),
)
"""All plants; constants of the selection were chosen on those for development."""
