"""Datasets collected from an environment: queried over its box, or run through episode by episode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.envs._agents import RandomAgent
from nopg.envs._environment import Environment
from nopg.envs._simulate import ControlLaw, simulate
from nopg.errors import ArgumentError
from nopg.policies import Policy

__all__ = ["FrameSkip", "collect", "collect_grid", "collect_uniform"]


@final
@dataclass(frozen=True, slots=True)
class FrameSkip(Environment):
    """An environment in which an action is held for several steps of another one.

    A step far shorter than the bandwidth makes the model stick; a longer step is the remedy. The rewards of
    the frames are summed. A terminal state in between ends the step there: nothing after it is counted.

    A policy learned from such data acts at the same pace: run it in the same `FrameSkip`.

    Attributes:
        environment: The one whose steps are the frames.
        frames: How many of them one action is held for, at least 1.

    Example:
        >>> from nopg.envs import Pendulum
        >>> hanging = torch.tensor([[3.14159, 0.0]], dtype=torch.float64)
        >>> slow = FrameSkip(Pendulum(), 4)
        >>> slow.reward(hanging, torch.zeros(1, 1), slow.step(hanging, torch.zeros(1, 1))).round()
        tensor([-39.], dtype=torch.float64)
    """

    environment: Environment
    frames: int

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise ArgumentError(f"an action is held for {self.frames} frames; give at least 1")

    @property
    def state_names(self) -> tuple[str, ...]:
        """As in the environment inside."""
        return self.environment.state_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """As in the environment inside."""
        return self.environment.action_names

    @property
    def angles(self) -> Mapping[str, float]:
        """As in the environment inside."""
        return self.environment.angles

    @property
    def state_low(self) -> torch.Tensor:
        """As in the environment inside."""
        return self.environment.state_low

    @property
    def state_high(self) -> torch.Tensor:
        """As in the environment inside."""
        return self.environment.state_high

    @property
    def action_low(self) -> torch.Tensor:
        """As in the environment inside."""
        return self.environment.action_low

    @property
    def action_high(self) -> torch.Tensor:
        """As in the environment inside."""
        return self.environment.action_high

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states (num_states, d_s), as in the environment inside."""
        return self.environment.initial(num_states, rng=rng)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) after the held frames, or at the first terminal state among them."""
        return self._hold(states, actions)[0]

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the sums (m,) of the rewards of the frames that were really taken."""
        del next_states  # the frames in between decide too, so they are run again
        return self._hold(states, actions)[1]

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Tell, as booleans (m,), which states end the episode, as in the environment inside."""
        return self.environment.terminal(next_states)

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a) that the plant receives, as in the environment inside."""
        return self.environment.applied(actions)

    def _hold(self, states: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s, total = states, torch.zeros(len(states), dtype=torch.float64)
        alive = torch.ones(len(states), dtype=torch.bool)
        for _ in range(self.frames):
            s_next = self.environment.step(s, actions)
            total = torch.where(alive, total + self.environment.reward(s, actions, s_next), total)
            s = torch.where(alive[:, None], s_next, s)
            alive = alive & ~self.environment.terminal(s_next)
        return s, total


def collect(
    environment: Environment,
    controller: ControlLaw | RandomAgent | Policy,
    *,
    episodes: int,
    steps: int,
    seed: int,
    frame_skip: int = 1,
) -> Transitions:
    """Run a behaviour for several episodes and return what it logged, episode after episode.

    The stored actions are those the plant received, after clipping. The last row of an episode is
    `terminated` if the task ended there and `truncated` if only the recording did, so none is lost. The
    declared starts are those of the episodes; where the task to learn starts elsewhere, say so with
    `Transitions.starting_at`.

    Args:
        environment: The environment to run in.
        controller: What acts: a function of raw states (m, d_s), such as a trained controller; a random
            agent; or a policy, which draws one action per state if it is stochastic.
        episodes: How many episodes, at least 1.
        steps: The length of an episode that does not terminate, counted in actions.
        seed: The same seed gives the same dataset.
        frame_skip: For how many steps of the environment an action is held; see `FrameSkip`.

    Example:
        >>> from nopg.envs import Pendulum
        >>> from nopg.envs import MixtureOfGaussians
        >>> collect(Pendulum(start="upright"), MixtureOfGaussians(), episodes=2, steps=100, seed=0)
        Transitions(200 rows: 2 state columns, 1 action column; 0 terminated, 2 truncated, 2 episodes;
          angle ∈ [...] (angle), velocity ∈ [...], torque ∈ [-2, 2], reward ∈ [...])
    """
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    if frame_skip < 1:
        raise ArgumentError(f"frame_skip must be at least 1, got {frame_skip}; 1 holds nothing")

    plant = environment if frame_skip == 1 else FrameSkip(environment, frame_skip)
    law = _control_law(controller, environment, generator(seed, "actions"))
    starts = environment.initial(episodes, rng=generator(seed, "initial states"))
    return simulate(plant, law, steps=steps, initial_states=starts).transitions(environment)


def collect_grid(
    environment: Environment,
    points: Sequence[int],
    *,
    num_initial_states: int = 1,
    seed: int | None = None,
) -> Transitions:
    """Query every point of a grid over states and actions, as the paper does (`tab:pendulum_uniform`).

    The grid is the Cartesian product of linearly spaced values, both ends of the box included; the last
    dimension varies fastest. An angle has its first and last value at the same place, as in the paper.

    Args:
        environment: The environment to query.
        points: How many values per state dimension, then per action dimension, each at least 2.
        num_initial_states: How many of the task's initial states the dataset carries.
        seed: Needed only where the environment draws its initial states.

    Example:
        >>> from nopg.envs import PENDULUM_GRIDS, Pendulum
        >>> len(collect_grid(Pendulum(), PENDULUM_GRIDS[450]))
        450
    """
    names = (*environment.state_names, *environment.action_names)
    if len(points) != len(names):
        raise ArgumentError(f"points has {len(points)} counts; give {len(names)}, for {', '.join(names)}")
    if min(points) < 2:
        raise ArgumentError(f"points is {tuple(points)}; both ends need at least 2 values per dimension")

    low, high = _box(environment)
    axes = [
        torch.linspace(start, end, count, dtype=torch.float64)
        for start, end, count in zip(low.tolist(), high.tolist(), points, strict=True)
    ]
    rng = None if seed is None else generator(seed, "initial states")
    return _query(environment, torch.cartesian_prod(*axes), environment.initial(num_initial_states, rng=rng))


def collect_uniform(
    environment: Environment, num_transitions: int, *, seed: int, num_initial_states: int = 1
) -> Transitions:
    """Query states and actions drawn uniformly and independently from the environment's box.

    Args:
        environment: The environment to query.
        num_transitions: n, at least 1.
        seed: The same seed gives the same dataset.
        num_initial_states: How many of the task's initial states the dataset carries.

    Example:
        >>> from nopg.envs import Pendulum
        >>> data = collect_uniform(Pendulum(), 100, seed=0)
        >>> tuple(data.states.shape), tuple(data.actions.shape)
        ((100, 2), (100, 1))
    """
    if num_transitions < 1:
        raise ArgumentError(f"num_transitions must be at least 1, got {num_transitions}")

    low, high = _box(environment)
    draws = torch.rand(
        num_transitions, len(low), dtype=torch.float64, generator=generator(seed, "uniform transitions")
    )
    starts = environment.initial(num_initial_states, rng=generator(seed, "initial states"))
    return _query(environment, low + (high - low) * draws, starts)


def _control_law(
    controller: ControlLaw | RandomAgent | Policy, environment: Environment, rng: torch.Generator
) -> ControlLaw:
    if isinstance(controller, RandomAgent):
        return controller.controller(rng)
    if not isinstance(controller, Policy):
        return controller
    schema = Schema(environment.state_names, environment.action_names, dict(environment.angles))

    def act(states: torch.Tensor) -> torch.Tensor:
        one_draw = controller.noise(len(states), rng)[:1]
        return controller.actions(schema.encode(states), one_draw)[0]

    return act


def _box(environment: Environment) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the corners (d_s + d_a,) of the box of states and actions together."""
    low = torch.cat([environment.state_low, environment.action_low])
    high = torch.cat([environment.state_high, environment.action_high])
    return low, high


def _query(environment: Environment, rows: torch.Tensor, initial_states: torch.Tensor) -> Transitions:
    """Return the transitions that start in rows of states and actions (n, d_s + d_a)."""
    d_s = len(environment.state_names)
    states = rows[:, :d_s].contiguous()
    actions = environment.applied(rows[:, d_s:])
    next_states = environment.step(states, actions)

    return Transitions.from_arrays(
        states,
        actions,
        environment.reward(states, actions, next_states),
        next_states,
        terminated=environment.terminal(next_states),
        state_names=environment.state_names,
        action_names=environment.action_names,
        angles=environment.angles,
        initial_states=initial_states,
    )
