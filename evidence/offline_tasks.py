"""Six plants with known truth, twenty policies each, on which answers from data alone are judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.environments import (
    LQR,
    CartPole,
    CartPoleParameters,
    Environment,
    LQRParameters,
    MountainCar,
    Pendulum,
    TwoTanks,
    balancing_feedback,
)
from nopg.evaluation import region_of
from nopg.rollouts import ControlLaw, simulate

__all__ = ["NUM_POLICIES", "TASKS", "OfflineTask"]

NUM_POLICIES = 20
_NUM_STARTS = 20
_TRUE_EPISODES = 400


@dataclass(frozen=True)
class OfflineTask:
    """A plant, how it was logged, and the policies whose return is asked for.

    Attributes:
        name: Of the task.
        plant: The true system, also for the log.
        discount: γ.
        steps: Length of a logged episode.
        behavior: What was logged, before noise was added to its actions.
        noise: Standard deviation of that noise, normal and new in every step.
        disturbance: Standard deviation of what the plant adds to every action and nobody logs.
        recorded_from: Draws the states (m, d_s) in which logged episodes begin.
        policies: Twenty functions of raw states, of very different quality.
        danger: A region, as an expression of the states, that some of them enter and others do not.
    """

    name: str
    plant: Environment
    discount: float
    steps: int
    behavior: ControlLaw
    noise: float
    disturbance: float
    recorded_from: Callable[[int, torch.Generator], torch.Tensor]
    policies: tuple[ControlLaw, ...]
    danger: str

    def data(self, size: int, seed: int) -> Transitions:
        """Return a log of so many transitions, the last episode cut to fit, with the actions asked for."""
        rng = generator(seed, "log")
        episodes, log = math.ceil(size / self.steps), None
        while log is None or len(log) < size:
            begin = self.recorded_from(episodes, rng)
            asked: list[torch.Tensor] = []
            law = self._disturbed(self._explored(rng), rng, asked)
            runs = simulate(self.plant, law, steps=self.steps, initial_states=begin)
            missing = len(runs.actions) - len(asked)
            actions = torch.stack(asked + [torch.zeros_like(asked[0])] * missing)
            log = replace(runs, actions=self.plant.applied(actions)).transitions(self.plant)
            episodes *= 2
        data = log.take(torch.arange(size))
        return data.starting_at(data.starts[:_NUM_STARTS])

    def truth(self, policy: ControlLaw, starts: torch.Tensor) -> float:
        """Return the discounted return of a policy on the plant from states (m, d_s)."""
        horizon = math.ceil(math.log(1e-4) / math.log(self.discount))
        begin = starts.repeat(-(-_TRUE_EPISODES // len(starts)), 1)
        law = self._disturbed(policy, generator(0, "truth"), [])
        runs = simulate(self.plant, law, steps=horizon, initial_states=begin)
        return float(runs.discounted_returns(self.discount).mean())

    def entered(self, policy: ControlLaw, starts: torch.Tensor, steps: int) -> float:
        """Return how often a policy is in the region of danger at one of the first steps, on the plant."""
        begin = starts.repeat(-(-_TRUE_EPISODES // len(starts)), 1)
        law = self._disturbed(policy, generator(0, "truth"), [])
        runs = simulate(self.plant, law, steps=steps, initial_states=begin)
        schema = Schema(self.plant.state_names, self.plant.action_names)
        inside = region_of(self.danger, schema)(runs.states[:-1])
        return float((inside & runs.alive).any(dim=0).double().mean())

    def _explored(self, rng: torch.Generator) -> ControlLaw:
        def act(states: torch.Tensor) -> torch.Tensor:
            asked = torch.as_tensor(self.behavior(states))
            return asked + self.noise * torch.randn(asked.shape, dtype=torch.float64, generator=rng)

        return act

    def _disturbed(self, law: ControlLaw, rng: torch.Generator, asked: list[torch.Tensor]) -> ControlLaw:
        """Return the law as the plant feels it, and put what it asks for on a list."""

        def act(states: torch.Tensor) -> torch.Tensor:
            asked.append(self.plant.applied(torch.as_tensor(law(states))))
            draw = torch.randn(asked[-1].shape, dtype=torch.float64, generator=rng)
            return asked[-1] + self.disturbance * draw

        return act


def _within(low: list[float], high: list[float]) -> Callable[[int, torch.Generator], torch.Tensor]:
    """Return what draws uniformly in a box."""
    lowest, highest = torch.tensor(low).double(), torch.tensor(high).double()

    def draw(count: int, rng: torch.Generator) -> torch.Tensor:
        share = torch.rand(count, len(lowest), dtype=torch.float64, generator=rng)
        return lowest + share * (highest - lowest)

    return draw


def _drawn(seed: str, low: list[float], high: list[float]) -> list[list[float]]:
    """Return the parameters of twenty policies, uniform in a box."""
    numbers: list[list[float]] = _within(low, high)(NUM_POLICIES, generator(0, seed)).tolist()
    return numbers


def _linear(gain: torch.Tensor) -> ControlLaw:
    return lambda states: states @ gain.T


def _regulator(name: str, plant: LQR, scales: tuple[float, float]) -> OfflineTask:
    """Return a regulator with gains around the best one; its episodes are short, lest they grow."""
    best = plant.optimal_gain()
    size = best.shape[1]
    policies = [
        _linear(best * (torch.tensor(numbers).double().view_as(best)))
        for numbers in _drawn(name, [scales[0]] * best.numel(), [scales[1]] * best.numel())
    ]
    box = _within([-1.5] * size, [1.5] * size)
    return OfflineTask(
        name=name,
        plant=plant,
        discount=plant.parameters.discount,
        steps=10,
        behavior=_linear(0.7 * best),
        noise=2.0,
        disturbance=1.0,
        recorded_from=box,
        policies=tuple(policies),
        danger="abs(x1) > 1.6",
    )


def _chain() -> LQR:
    """Return two coupled double integrators, two actions."""
    return LQR(
        LQRParameters(
            dynamics=(
                (1.0, 0.1, 0.0, 0.0),
                (0.0, 1.0, 0.05, 0.0),
                (0.0, 0.0, 1.0, 0.1),
                (0.05, 0.0, 0.0, 1.0),
            ),
            control=((0.0, 0.0), (0.1, 0.0), (0.0, 0.0), (0.0, 0.1)),
            state_reward=tuple(tuple(-0.5 * (i == j) for j in range(4)) for i in range(4)),
            action_reward=tuple(tuple(-0.01 * (i == j) for j in range(2)) for i in range(2)),
            initial_state=(1.0, 0.0, 1.0, 0.0),
            discount=0.9,
        )
    )


def _swing(torque: float, pull: float, damping: float, cone: float) -> ControlLaw:
    """Return a swing-up: push along the velocity, and hold by springs within a cone around upright."""

    def act(states: torch.Tensor) -> torch.Tensor:
        angle = torch.remainder(states[:, 0] + math.pi, 2 * math.pi) - math.pi
        velocity = states[:, 1]
        push = torque * torch.tanh(4.0 * velocity)
        hold = -(pull * angle + damping * velocity)
        inside = torch.sigmoid(12.0 * (cone - (angle.square() + (0.3 * velocity).square()).sqrt()))
        return (inside * hold + (1.0 - inside) * push).clamp(-2.0, 2.0)[:, None]

    return act


def _pendulum() -> OfflineTask:
    box = _within([-math.pi, -6.0], [math.pi, 6.0])
    return OfflineTask(
        name="pendulum",
        plant=Pendulum(),
        discount=0.95,
        steps=25,
        behavior=lambda states: 0.0 * states[:, :1],
        noise=1.5,
        disturbance=0.5,
        recorded_from=box,
        policies=tuple(
            _swing(*numbers) for numbers in _drawn("pendulum", [-1.0, 2.0, 0.5, 0.2], [2.0, 14.0, 4.0, 1.2])
        ),
        danger="abs(velocity) > 6.5",
    )


def _cart_pole() -> OfflineTask:
    plant = CartPole(CartPoleParameters(rate=50.0))
    feedback = balancing_feedback(plant)

    def scaled(gain: float, place: float, offset: float) -> ControlLaw:
        def act(states: torch.Tensor) -> torch.Tensor:
            weights = torch.tensor([place, 1.0, place, 1.0], dtype=torch.float64)
            return (gain * feedback(states * weights) + offset).clamp(-5.0, 5.0)

        return act

    box = _within([-0.1, -0.04, -0.1, -0.1], [0.1, 0.04, 0.1, 0.1])
    return OfflineTask(
        name="cart-pole",
        plant=plant,
        discount=0.95,
        steps=50,
        behavior=scaled(0.8, 1.0, 0.0),
        noise=1.5,
        disturbance=0.5,
        recorded_from=box,
        policies=tuple(
            scaled(*numbers) for numbers in _drawn("cart-pole", [-0.3, 0.0, -0.7], [1.3, 1.5, 0.7])
        ),
        danger="abs(position) > 0.1",
    )


def _mountain_car() -> OfflineTask:
    def along(force: float, threshold: float, bias: float) -> ControlLaw:
        return lambda states: (force * torch.tanh(150.0 * (states[:, 1] - threshold)) + bias).clamp(-1, 1)[
            :, None
        ]

    return OfflineTask(
        name="mountain-car",
        plant=MountainCar(),
        discount=0.99,
        steps=60,
        behavior=along(0.6, 0.0, 0.0),
        noise=0.6,
        disturbance=0.3,
        recorded_from=_within([-1.0, -0.03], [0.3, 0.03]),
        policies=tuple(
            along(*numbers) for numbers in _drawn("mountain-car", [0.0, -0.01, -0.3], [1.3, 0.01, 0.3])
        ),
        danger="position > 0.3",
    )


def _two_tanks() -> OfflineTask:
    plant = TwoTanks()
    per_root = plant.parameters.voltage_at(1.0)

    def cascade(outer: float, inner: float, offset: float) -> ControlLaw:
        def act(states: torch.Tensor) -> torch.Tensor:
            upper, lower, set_point = states.T
            volts = per_root * set_point.sqrt() + outer * (set_point - lower) + inner * (set_point - upper)
            return plant.applied((volts + offset)[:, None])

        return act

    def begin(count: int, rng: torch.Generator) -> torch.Tensor:
        return plant.initial(count, rng=rng)

    return OfflineTask(
        name="two-tanks",
        plant=plant,
        discount=0.95,
        steps=50,
        behavior=cascade(0.5, 0.1, 0.0),
        noise=0.7,
        disturbance=0.3,
        recorded_from=begin,
        policies=tuple(
            cascade(*numbers) for numbers in _drawn("two-tanks", [0.0, 0.0, -0.4], [3.0, 1.0, 0.4])
        ),
        danger="lower > set_point + 1",
    )


_MAKERS: dict[str, Callable[[], OfflineTask]] = {
    "lqr-2": lambda: _regulator("lqr-2", LQR(), (0.3, 1.7)),
    "lqr-4": lambda: _regulator("lqr-4", _chain(), (0.3, 1.7)),
    "pendulum": _pendulum,
    "cart-pole": _cart_pole,
    "mountain-car": _mountain_car,
    "two-tanks": _two_tanks,
}
TASKS = tuple(_MAKERS)


@cache
def task(name: str) -> OfflineTask:
    """Return the task of this name."""
    return _MAKERS[name]()
