"""Datasets from an environment: sampled over its box, or collected in episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, final, runtime_checkable

import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.data import Schema, Transitions
from nopg.envs._environment import Environment
from nopg.envs._simulate import ControlLaw, dataset, simulate
from nopg.errors import ArgumentError
from nopg.policies import Policy


@runtime_checkable
class RandomAgent(Protocol):
    """A random controller, made for each run from a generator."""

    def controller(self, rng: torch.Generator, /) -> ControlLaw:
        """Return a controller for one run, which draws from the generator and keeps its own state."""


@final
@dataclass(frozen=True, slots=True)
class UniformAgent:
    """Actions drawn uniformly from a box at every step, independent of the state.

    The default is the paper's on the cart-pole, in the ±5 V of its policies.

    Attributes:
        low: The smallest value of each of the d_a actions, in their units.
        high: The largest, not below `low`.
    """

    low: Sequence[float] = (-5.0,)
    high: Sequence[float] = (5.0,)

    def __post_init__(self) -> None:
        low, high = as_tensor(self.low), as_tensor(self.high)
        fit = low.ndim == 1 and low.shape == high.shape and len(low) > 0
        if not (fit and bool((low <= high).all() and low.isfinite().all() and high.isfinite().all())):
            raise ArgumentError(
                f"low is {self.low} and high is {self.high}; give finite numbers per action, low ≤ high"
            )

    @classmethod
    def within(cls, environment: Environment) -> Self:
        """Return the agent of the environment's box of actions."""
        return cls(low=tuple(environment.action_low.tolist()), high=tuple(environment.action_high.tolist()))

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller that draws new actions at every step."""
        return lambda states: _drawn(as_tensor(self.low), as_tensor(self.high), len(states), rng)


def collect(
    environment: Environment,
    controller: ControlLaw | RandomAgent | Policy,
    *,
    episodes: int,
    steps: int,
    seed: int,
) -> Transitions:
    """Run a controller for several episodes and return their transitions, episode after episode.

    The actions are those that the plant received, after clipping; the starts are those of the episodes.

    Args:
        environment: The plant.
        controller: A function of raw states (m, d_s), such as a trained controller; a random agent such as
            `UniformAgent`; or a policy, which draws one action per state if it is stochastic.
        episodes: Number of episodes, at least 1.
        steps: The length of an episode that does not terminate, counted in actions.
        seed: The same seed gives the same dataset.

    Example:
        >>> from nopg.envs import Pendulum, UniformAgent
        >>> len(collect(Pendulum(start="upright"), UniformAgent(), episodes=2, steps=100, seed=0))
        200
    """
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    law = _control_law(controller, environment, generator(seed, "actions"))
    starts = environment.initial(episodes, rng=generator(seed, "initial states"))
    return simulate(environment, law, steps=steps, initial_states=starts).transitions(environment)


def collect_grid(environment: Environment, points: Sequence[int]) -> Transitions:
    """Sample one transition at every point of a grid of states and actions (`tab:pendulum_uniform`).

    The grid is the Cartesian product of linearly spaced values, both ends of the box included; the last
    dimension varies fastest. The first and the last value of an angle coincide, as in the paper.

    Args:
        environment: The plant.
        points: Number of values per state dimension, then per action dimension, each at least 2.

    Example:
        >>> from nopg.envs import Pendulum
        >>> len(collect_grid(Pendulum(), (15, 15, 2)))
        450
    """
    names = (*environment.state_names, *environment.action_names)
    if len(points) != len(names):
        raise ArgumentError(f"points has {len(points)} counts; give {len(names)}, for {', '.join(names)}")
    if min(points) < 2:
        raise ArgumentError(f"points is {tuple(points)}; give at least 2 values per dimension")
    axes = [
        torch.linspace(start, end, count, dtype=torch.float64)
        for start, end, count in zip(*(end.tolist() for end in _corners(environment)), points, strict=True)
    ]
    return _transitions(environment, torch.cartesian_prod(*axes), num_initial_states=1, seed=0)


def collect_uniform(
    environment: Environment, num_transitions: int, *, seed: int, num_initial_states: int = 1
) -> Transitions:
    """Sample transitions at states and actions drawn uniformly and independently from the box.

    Args:
        environment: The plant.
        num_transitions: n, at least 1.
        seed: The same seed gives the same dataset.
        num_initial_states: Number of the task's initial states in the dataset.
    """
    if num_transitions < 1:
        raise ArgumentError(f"num_transitions must be at least 1, got {num_transitions}")
    rows = _drawn(*_corners(environment), num_transitions, generator(seed, "uniform transitions"))
    return _transitions(environment, rows, num_initial_states=num_initial_states, seed=seed)


def _control_law(
    controller: ControlLaw | RandomAgent | Policy, environment: Environment, rng: torch.Generator
) -> ControlLaw:
    if isinstance(controller, Policy):
        policy = controller
        schema = Schema(environment.state_names, environment.action_names, dict(environment.angles))
        return lambda states: policy.actions(schema.encode(states), policy.noise(len(states), rng)[:1])[0]
    return controller.controller(rng) if isinstance(controller, RandomAgent) else controller


def _corners(environment: Environment) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the corners (d_s + d_a,) of the joint box of states and actions."""
    low = torch.cat([environment.state_low, environment.action_low])
    return low, torch.cat([environment.state_high, environment.action_high])


def _drawn(low: torch.Tensor, high: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """Return rows drawn uniformly from a box."""
    return low + (high - low) * torch.rand(count, len(low), dtype=torch.float64, generator=rng)


def _transitions(
    environment: Environment, rows: torch.Tensor, *, num_initial_states: int, seed: int
) -> Transitions:
    """Return one transition from each row of states and actions (n, d_s + d_a)."""
    d_s = len(environment.state_names)
    states, actions = rows[:, :d_s].contiguous(), environment.applied(rows[:, d_s:])
    after = environment.step(states, actions)
    rewards, ends = environment.reward(states, actions, after), environment.terminal(after)
    starts = environment.initial(num_initial_states, rng=generator(seed, "initial states"))
    return dataset(environment, states, actions, rewards, after, terminated=ends, initial_states=starts)
