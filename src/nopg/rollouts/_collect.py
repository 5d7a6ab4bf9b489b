"""Datasets of single transitions, queried from an environment over its box of states and actions."""

from collections.abc import Sequence

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.environments import Environment
from nopg.errors import ArgumentError

__all__ = ["collect_grid", "collect_uniform"]


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
        >>> from nopg.environments import PENDULUM_GRIDS, Pendulum
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
        >>> from nopg.environments import Pendulum
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
