"""Simulated episodes of a controller, and datasets: from episodes, or sampled over the box of a plant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast, final, runtime_checkable

import torch

from nopg._seeding import generator
from nopg._stream import Streaming
from nopg._typing import ArrayLike, as_tensor
from nopg.data import Schema, Transitions
from nopg.envs._environment import Environment
from nopg.errors import ArgumentError
from nopg.policies import Policy

ControlLaw = Callable[[torch.Tensor], ArrayLike]
"""Maps raw states (m, d_s) to actions (m, d_a)."""


class ClosedLoop:
    """The actions of a controller in m episodes side by side, from their start on.

    One with a memory gets the columns that it measures, by name, and the actions that the plant received.
    """

    def __init__(self, controller: ControlLaw, state_names: Sequence[str], episodes: int) -> None:
        self._law, given, self._stream = controller, cast(object, controller), None
        self._columns: list[int] | slice = slice(None)
        if isinstance(given, Streaming) and given.has_memory:
            self._stream = given.stream(batch=episodes)
            measured = self._stream.columns.measured
            if set(measured) <= set(state_names):
                self._columns = [list(state_names).index(name) for name in measured]

    def __call__(self, observations: torch.Tensor, applied: torch.Tensor | None) -> ArrayLike:
        """Return actions (m, d_a) at observations (m, d_s), after those applied in the last step, if any."""
        if self._stream is None:
            return self._law(observations)
        last = None if applied is None else applied.numpy()
        return self._stream.act(observations[:, self._columns].numpy(), last)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trajectories:
    """m episodes of T steps; after an episode has terminated, its last state repeats, without reward.

    Attributes:
        states: The states, the initial one first, shape (T+1, m, d_s).
        actions: The actions that the plant received, after clipping, shape (T, m, d_a).
        rewards: The rewards of the steps, shape (T, m).
        terminated: True at the terminating step, at most once per episode, shape (T, m).
    """

    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor

    @property
    def alive(self) -> torch.Tensor:
        """True for the steps up to termination, the terminating one included, shape (T, m)."""
        ended = self.terminated.long()
        return ended.cumsum(0) - ended == 0

    @property
    def returns(self) -> torch.Tensor:
        """The undiscounted sum of rewards of each episode, shape (m,)."""
        return self.discounted_returns(1.0)

    def discounted_returns(self, discount: float) -> torch.Tensor:
        """Return Σₜ γᵗ rₜ of each episode, shape (m,); γ may be 1 because the episodes are finite."""
        if not 0 <= discount <= 1:
            raise ArgumentError(f"discount must lie between 0 and 1, got {discount}; try 0.97")
        weights = discount ** torch.arange(len(self.rewards), dtype=self.rewards.dtype)  # (T,)
        return weights @ torch.where(self.alive, self.rewards, 0.0)

    def transitions(self, environment: Environment) -> Transitions:
        """Return the steps up to termination as a dataset, episode after episode.

        The last step of an episode is `terminated` if the environment, which names the columns, terminated
        it, else `truncated`.
        """
        taken = self.alive.T  # (m, T)
        truncated = torch.zeros_like(taken)
        truncated[:, -1] = taken[:, -1] & ~self.terminated[-1]
        numbers = torch.arange(len(taken))[:, None].expand_as(taken)
        return dataset(
            environment,
            self.states[:-1].transpose(0, 1)[taken],
            self.actions.transpose(0, 1)[taken],
            self.rewards.T[taken],
            self.states[1:].transpose(0, 1)[taken],
            terminated=self.terminated.T[taken],
            truncated=truncated[taken],
            episodes=numbers[taken],
        )


def dataset(environment: Environment, *columns: torch.Tensor, **others: Any) -> Transitions:
    """Return transitions of states, actions, rewards and next states with the names of an environment."""
    return Transitions.from_arrays(
        *columns,
        state_names=environment.state_names,
        action_names=environment.action_names,
        angles=environment.angles,
        **others,
    )


def simulate(
    environment: Environment,
    controller: ControlLaw,
    *,
    steps: int,
    initial_states: ArrayLike | None = None,
) -> Trajectories:
    """Run a controller in an environment, all episodes in parallel.

    Args:
        environment: The plant.
        controller: Maps raw states (m, d_s) to actions (m, d_a); its actions in terminated episodes are
            ignored. A trained controller with derived columns gets the measured ones and has its own memory.
        steps: T, the length of an episode that does not terminate, at least 1.
        initial_states: One row (m, d_s) per episode, such as `environment.initial(m, rng=rng)`; by default
            the fixed start of the environment.

    Example:
        >>> from nopg.envs import Pendulum
        >>> rest = simulate(Pendulum(), lambda states: torch.zeros(len(states), 1), steps=500)
        >>> round(rest.returns.item(), 2)  # 500 steps of −π²
        -4934.8
    """
    if steps < 1:
        raise ArgumentError(f"steps must be at least 1, got {steps}")
    start = environment.initial(1) if initial_states is None else as_tensor(initial_states)
    names, shape = environment.state_names, tuple(start.shape)
    if start.ndim != 2 or shape[1] != len(names) or len(start) == 0 or not bool(start.isfinite().all()):
        raise ArgumentError(
            f"initial_states has shape {shape}; give one row of {len(names)} finite numbers "
            f"({', '.join(names)}) per episode"
        )
    m, d_s, d_a = len(start), len(environment.state_names), len(environment.action_names)

    states = torch.empty(steps + 1, m, d_s, dtype=torch.float64)
    actions = torch.zeros(steps, m, d_a, dtype=torch.float64)
    rewards = torch.zeros(steps, m, dtype=torch.float64)
    terminated = torch.zeros(steps, m, dtype=torch.bool)

    states[0] = start
    alive = torch.ones(m, dtype=torch.bool)
    law, a = ClosedLoop(controller, environment.state_names, m), None
    with torch.no_grad():
        for t in range(steps):
            s = states[t]
            # A copy, so that the controller cannot change the record.
            a = environment.applied(_checked(law(s.clone(), a), (m, d_a), t, alive))
            s_next = environment.step(s, a)

            actions[t] = torch.where(alive[:, None], a, 0.0)
            rewards[t] = torch.where(alive, environment.reward(s, a, s_next), 0.0)
            terminated[t] = alive & environment.terminal(s_next)
            states[t + 1] = torch.where(alive[:, None], s_next, s)
            alive = alive & ~terminated[t]
            if not bool(alive.any()):
                states[t + 2 :] = states[t + 1]
                break

    return Trajectories(states=states, actions=actions, rewards=rewards, terminated=terminated)


def _checked(actions: ArrayLike, shape: tuple[int, int], t: int, alive: torch.Tensor) -> torch.Tensor:
    a = as_tensor(actions)
    if a.shape != shape:
        raise ArgumentError(
            f"the controller returned actions of shape {tuple(a.shape)} at step {t}; "
            f"return {shape}, one row per episode"
        )
    if not bool(a[alive].isfinite().all()):
        raise ArgumentError(
            f"the controller returned NaN or infinities at step {t}; look at the states it saw there"
        )
    return a


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
