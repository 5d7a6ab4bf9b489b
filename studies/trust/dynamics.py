"""Ten kinds of small plants, drawn at random: dynamics without noise, limits of actions, a set point."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy import linalg

Array = npt.NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dynamics:
    """A plant in discrete time.

    Attributes:
        step: Next states (m, d_s) from states (m, d_s) and applied actions (m, d_a).
        low: Lowest actions, shape (d_a,).
        high: Highest actions, shape (d_a,).
        target: State to hold, shape (d_s,).
        trim: Action that holds it, shape (d_a,).
        scale: Typical deviation of each state, shape (d_s,): noise, starts and prices are relative to it.
        least: Lowest possible states, shape (d_s,).
        angles: Period of columns that are angles, by number.
        runs_away: Whether it leaves the target under random actions.
        boundary: Largest |deviation| of the first column from which the actions can bring it back.
        known_gain: Gains of its controller, shape (d_a, d_s); None for optimal ones.
    """

    step: Callable[[Array, Array], Array]
    low: Array
    high: Array
    target: Array
    trim: Array
    scale: Array
    least: Array | float = -math.inf
    angles: Mapping[int, float] = field(default_factory=dict)
    runs_away: bool = False
    boundary: float = math.inf
    known_gain: Array | None = None

    def away(self, states: Array) -> Array:
        """Return deviations (m, d_s) from the target, those of angles within half a period."""
        found = states - self.target
        for column, period in self.angles.items():
            found[:, column] -= period * np.round(found[:, column] / period)
        return found

    def gain(self, price: float) -> Array:
        """Return the gains (d_a, d_s) that are optimal for deviations of the typical size.

        Args:
            price: Of a squared action in units of half its range.
        """
        if self.known_gain is not None:
            return self.known_gain
        d_s, half = len(self.target), (self.high - self.low) / 2
        moves = np.diag(np.concatenate([0.3 * self.scale, 0.5 * half]))
        point = np.concatenate([self.target, self.trim])
        ends = [self.step((point + s * moves)[:, :d_s], (point + s * moves)[:, d_s:]) for s in (1, -1)]
        slopes = (self.away(ends[0]) - self.away(ends[1])).T / (2 * np.diag(moves))
        A, B = slopes[:, :d_s], slopes[:, d_s:]
        Q, R = np.diag(self.scale**-2.0), price * np.diag(half**-2.0)
        X = linalg.solve_discrete_are(A, B, Q, R)
        return np.asarray(np.linalg.solve(R + B.T @ X @ B, B.T @ X @ A))


class _Limits(TypedDict):
    low: Array
    high: Array
    trim: Array


def _symmetric(num: int, size: float = 1.0) -> _Limits:
    return {"low": np.full(num, -size), "high": np.full(num, size), "trim": np.zeros(num)}


def _linear_parts(rng: Rng, radius: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Return A, B and typical deviations under random actions, of one to three columns."""
    d_s = int(rng.integers(1, 4))
    d_a = int(rng.integers(1, 1 + min(d_s, 2)))
    A = rng.normal(size=(d_s, d_s)) + np.eye(d_s)
    A *= rng.uniform(*radius) / np.abs(np.linalg.eigvals(A)).max()
    B = rng.normal(size=(d_s, d_a))
    B[:d_a] += np.eye(d_a) * np.where(np.diag(B[:d_a]) < 0, -1.0, 1.0)
    spread = linalg.solve_discrete_lyapunov(A, B @ B.T / 3)
    return A, B, 1.5 * np.sqrt(np.diag(spread))


def _linear(rng: Rng, bend: Callable[[Array], Array] = lambda actions: actions) -> Dynamics:
    A, B, scale = _linear_parts(rng, (0.7, 0.97))
    return Dynamics(
        step=lambda s, a: s @ A.T + bend(a) @ B.T,
        target=np.zeros(len(A)),
        scale=scale,
        **_symmetric(B.shape[1]),
    )


def _unstable(rng: Rng) -> Dynamics:
    """The first column grows, at most linearly; |x| < boundary can be brought back. A second one follows."""
    a, b, d_s = rng.uniform(1.02, 1.1), rng.uniform(0.1, 0.3), int(rng.integers(1, 3))
    boundary = b / (a - 1)
    c, e = rng.uniform(0.6, 0.9), rng.uniform(0.1, 0.5)

    def step(s: Array, u: Array) -> Array:
        x = s[:, 0]
        growth = (a - 1) * 3 * boundary * np.tanh(x / (3 * boundary))
        second = [c * s[:, 1] + e * u[:, 0] + 0.1 * x] if d_s > 1 else []
        return np.stack([x + growth + b * u[:, 0], *second], axis=1)

    return Dynamics(
        step=step,
        target=np.zeros(d_s),
        scale=np.array([boundary / 3, 1.0])[:d_s],
        runs_away=True,
        boundary=boundary,
        **_symmetric(1),
    )


def _bilinear(rng: Rng) -> Dynamics:
    A, B, scale = _linear_parts(rng, (0.5, 0.85))
    N = rng.normal(size=A.shape) * 0.15 / len(A)
    return Dynamics(
        step=lambda s, a: s @ A.T + a @ B.T + a[:, :1] * (s @ N.T),
        target=np.zeros(len(A)),
        scale=scale,
        **_symmetric(B.shape[1]),
    )


def _pendulum(rng: Rng) -> Dynamics:
    """An angle and its speed; 0 is up or down."""
    up, g, friction = bool(rng.random() < 0.5), rng.uniform(2.0, 8.0), rng.uniform(0.1, 1.0)
    dt, size = rng.uniform(0.05, 0.1), g * rng.uniform(0.6, 1.2)

    def step(s: Array, u: Array) -> Array:
        angle, speed = s[:, 0], s[:, 1]
        for _ in range(2):
            force = (g if up else -g) * np.sin(angle) + u[:, 0] - friction * speed
            speed = speed + dt / 2 * force
            angle = angle + dt / 2 * speed
        return np.stack([(angle + np.pi) % (2 * np.pi) - np.pi, speed], axis=1)

    width = 0.2 if up else 0.6
    return Dynamics(
        step=step,
        target=np.zeros(2),
        scale=np.array([width, width * math.sqrt(g)]),
        angles=MappingProxyType({0: 2 * math.pi}),
        runs_away=up,
        **_symmetric(1, size),
    )


def _second_order(
    rng: Rng, force: Callable[[Array, Array, Array], Array], *, rest: float, size: float, width: float
) -> Dynamics:
    """A position and its speed under a force of both and of the action."""
    dt, trim = rng.uniform(0.08, 0.2), -float(force(np.array([rest]), np.zeros(1), np.zeros(1))[0])

    def step(s: Array, u: Array) -> Array:
        x, v = s[:, 0], s[:, 1]
        for _ in range(2):
            v = v + dt / 2 * force(x, v, u[:, 0])
            x = x + dt / 2 * v
        return np.stack([x, v], axis=1)

    return Dynamics(
        step=step,
        target=np.array([rest, 0.0]),
        scale=np.array([width, width]),
        low=np.full(1, -size),
        high=np.full(1, size),
        trim=np.array([trim]),
    )


def _duffing(rng: Rng) -> Dynamics:
    linear, cubic, friction = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 1), *rng.uniform(0.3, 1.5, 2)
    rest, size = rng.uniform(-0.3, 0.3), rng.uniform(1.0, 2.0)
    return _second_order(
        rng,
        lambda x, v, u: linear * x - cubic * x**3 - friction * v + u,
        rest=rest,
        size=size,
        width=0.6,
    )


def _double_integrator(rng: Rng) -> Dynamics:
    friction, drag = rng.uniform(0.05, 0.8, 2)
    return _second_order(
        rng, lambda x, v, u: u - friction * v - drag * v * np.abs(v), rest=0.0, size=1.0, width=0.5
    )


def _saturating(rng: Rng) -> Dynamics:
    steep = rng.uniform(1.0, 3.0)
    return _linear(rng, lambda actions: np.tanh(steep * actions) / math.tanh(steep))


def _dead_zone(rng: Rng) -> Dynamics:
    width = rng.uniform(0.1, 0.3)
    return _linear(rng, lambda actions: np.sign(actions) * np.maximum(np.abs(actions) - width, 0.0))


def _tank(rng: Rng) -> Dynamics:
    trim, dt = rng.uniform(0.3, 0.7), 2.0 / rng.uniform(5.0, 20.0)
    return Dynamics(
        step=lambda s, a: np.maximum(s + dt * (a / trim - np.sqrt(np.maximum(s, 0.0))), 0.0),
        low=np.zeros(1),
        high=np.ones(1),
        trim=np.array([trim]),
        target=np.ones(1),
        scale=np.array([0.3]),
        least=0.0,
    )


def _coupled(rng: Rng) -> Dynamics:
    return _two_tanks(rng) if rng.random() < 0.5 else _two_masses(rng)


def _two_tanks(rng: Rng) -> Dynamics:
    """The first tank flows into the second; half of them have a second pump there."""
    pumps, dt = int(rng.integers(1, 3)), 2.0 / rng.uniform(6.0, 15.0)
    trim = rng.uniform(0.3, 0.7, pumps)
    extra = 0.5 if pumps > 1 else 0.0

    def step(s: Array, a: Array) -> Array:
        out = np.sqrt(np.maximum(s, 0.0))
        first = s[:, 0] + dt * (a[:, 0] / trim[0] - out[:, 0])
        second = s[:, 1] + dt * (out[:, 0] + extra * a[:, -1] / trim[-1] - (1.0 + extra) * out[:, 1])
        return np.asarray(np.maximum(np.stack([first, second], axis=1), 0.0))

    return Dynamics(
        step=step,
        low=np.zeros(pumps),
        high=np.ones(pumps),
        trim=trim,
        target=np.ones(2),
        scale=np.array([0.3, 0.3]),
        least=0.0,
    )


def _two_masses(rng: Rng) -> Dynamics:
    """Two thermal masses, a heater at the first and half of the time a fan at the second."""
    fan, between, loss = bool(rng.random() < 0.5), *rng.uniform(0.05, 0.3, 2)
    heat, cold = rng.uniform(0.2, 0.5), rng.uniform(0.05, 0.2)

    def change(s: Array, a: Array) -> Array:
        across = between * (s[:, 0] - s[:, 1])
        blown = cold * a[:, 1] * s[:, 1] if fan else 0.0
        return np.stack([heat * a[:, 0] - across, across - loss * s[:, 1] - blown], axis=1)

    trim = np.array([0.4, 0.5])[: 1 + fan]
    second = heat * trim[0] / (loss + (cold * 0.5 if fan else 0.0))
    target = np.array([second + heat * trim[0] / between, second])
    return Dynamics(
        step=lambda s, a: s + change(s, a),
        low=np.zeros(1 + fan),
        high=np.ones(1 + fan),
        trim=trim,
        target=target,
        scale=np.array([0.3 * target[1], 0.3 * target[1]]),
    )


def heat_exchanger(rng: Rng) -> Dynamics:
    """Return a plant whose second column is a set point that stays; the target is their difference 0."""
    a, gain, k = rng.uniform(0.7, 0.93), rng.uniform(0.8, 1.3), rng.uniform(0.2, 0.8)
    return Dynamics(
        step=lambda s, u: np.stack([a * s[:, 0] + (1 - a) * gain * u[:, 0], s[:, 1]], axis=1),
        target=np.zeros(2),
        scale=np.array([0.4, 0.4]),
        known_gain=np.array([[k, -(k + 1.0 / gain)]]),
        **_symmetric(1),
    )


KINDS: Mapping[str, Callable[[Rng], Dynamics]] = MappingProxyType(
    {
        "linear": _linear,
        "unstable": _unstable,
        "bilinear": _bilinear,
        "pendulum": _pendulum,
        "duffing": _duffing,
        "saturating": _saturating,
        "dead zone": _dead_zone,
        "tank": _tank,
        "double integrator": _double_integrator,
        "coupled": _coupled,
    }
)
"""By name."""
