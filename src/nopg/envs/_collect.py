"""Datasets from an environment: sampled over its box, or collected in episodes."""

from collections.abc import Sequence

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.envs._agents import RandomAgent
from nopg.envs._closed_loop import ControlLaw
from nopg.envs._environment import Environment
from nopg.envs._frame_skip import FrameSkip
from nopg.envs._simulate import simulate
from nopg.errors import ArgumentError
from nopg.policies import Policy


def collect(
    environment: Environment,
    controller: ControlLaw | RandomAgent | Policy,
    *,
    episodes: int,
    steps: int,
    seed: int,
    frame_skip: int = 1,
) -> Transitions:
    """Run a controller for several episodes and return their transitions, episode after episode.

    The stored actions are those that the plant received, after clipping. The last row of an episode is
    `terminated` if the task ended there and `truncated` otherwise. The initial states of the dataset are
    those of the episodes; where the task to learn starts elsewhere, declare it with
    `Transitions.starting_at`.

    Args:
        environment: The plant.
        controller: A function of raw states (m, d_s), such as a trained controller; a random agent such as
            `UniformAgent`; or a policy, which draws one action per state if it is stochastic.
        episodes: Number of episodes, at least 1.
        steps: The length of an episode that does not terminate, counted in actions.
        seed: The same seed gives the same dataset.
        frame_skip: Number of steps for which an action is held; see `FrameSkip`.

    Example:
        >>> from nopg.envs import Pendulum, UniformAgent
        >>> collect(Pendulum(start="upright"), UniformAgent(), episodes=2, steps=100, seed=0)
        Transitions(200 rows: 2 state columns, 1 action column; 0 terminated, 2 truncated, 2 episodes;
          angle ∈ [...] (angle), velocity ∈ [...], torque ∈ [-2, 2], reward ∈ [...])
    """
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    if frame_skip < 1:
        raise ArgumentError(f"frame_skip must be at least 1, got {frame_skip}")

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
    """Sample one transition at every point of a grid of states and actions (`tab:pendulum_uniform`).

    The grid is the Cartesian product of linearly spaced values, both ends of the box included; the last
    dimension varies fastest. The first and the last value of an angle coincide, as in the paper.

    Args:
        environment: The plant.
        points: Number of values per state dimension, then per action dimension, each at least 2.
        num_initial_states: Number of the task's initial states in the dataset.
        seed: Needed only where the initial states are random.

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

    low, high = _box(environment)
    axes = [
        torch.linspace(start, end, count, dtype=torch.float64)
        for start, end, count in zip(low.tolist(), high.tolist(), points, strict=True)
    ]
    rng = None if seed is None else generator(seed, "initial states")
    starts = environment.initial(num_initial_states, rng=rng)
    return _transitions(environment, torch.cartesian_prod(*axes), starts)


def collect_uniform(
    environment: Environment, num_transitions: int, *, seed: int, num_initial_states: int = 1
) -> Transitions:
    """Sample transitions at states and actions drawn uniformly and independently from the box.

    Args:
        environment: The plant.
        num_transitions: n, at least 1.
        seed: The same seed gives the same dataset.
        num_initial_states: Number of the task's initial states in the dataset.

    Example:
        >>> from nopg.envs import Pendulum
        >>> data = collect_uniform(Pendulum(), 100, seed=0)
        >>> tuple(data.states.shape), tuple(data.actions.shape)
        ((100, 2), (100, 1))
    """
    if num_transitions < 1:
        raise ArgumentError(f"num_transitions must be at least 1, got {num_transitions}")

    low, high = _box(environment)
    rng = generator(seed, "uniform transitions")
    draws = torch.rand(num_transitions, len(low), dtype=torch.float64, generator=rng)
    starts = environment.initial(num_initial_states, rng=generator(seed, "initial states"))
    return _transitions(environment, low + (high - low) * draws, starts)


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
    """Return the corners (d_s + d_a,) of the joint box of states and actions."""
    low = torch.cat([environment.state_low, environment.action_low])
    high = torch.cat([environment.state_high, environment.action_high])
    return low, high


def _transitions(environment: Environment, rows: torch.Tensor, initial_states: torch.Tensor) -> Transitions:
    """Return one transition from each row of states and actions (n, d_s + d_a)."""
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
