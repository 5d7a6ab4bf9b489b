"""Transitions from a policy rolled out in a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._typing import ArrayLike
from nopg.data._schema import Schema
from nopg.data._spaces import bounds_of, flat, width
from nopg.errors import ArgumentError, DataError, MissingExtraError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["from_gymnasium"]


def from_gymnasium(
    env: Any,
    policy: Callable[[Any], ArrayLike],
    *,
    episodes: int,
    seed: int,
    max_steps: int | None = None,
    keys: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    angles: Mapping[str, float] | Sequence[str | int] | None = None,
    units: Mapping[str, str] | None = None,
    initial_states: ArrayLike | None = None,
) -> Transitions:
    """Return the transitions of some episodes; `Transitions.from_gymnasium` says what the arguments mean."""
    from nopg.data._transitions import Transitions

    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "gymnasium") from error

    own = isinstance(env, str)
    world = gymnasium.make(env) if own else env
    try:
        state_columns = width(world.observation_space, "the observation space", keys)
        action_columns = width(world.action_space, "the action space")
        states = tuple(state_names or Schema.default_names("s", state_columns))
        actions = tuple(action_names or Schema.default_names("a", action_columns))
        bounds = bounds_of(world.observation_space, states, keys) | bounds_of(world.action_space, actions)
        columns = _roll_out(
            world, policy, episodes=episodes, seed=seed, limit=_limit(world, max_steps), keys=keys
        )
    finally:
        if own:
            world.close()
    return Transitions.from_arrays(
        **columns,
        state_names=states,
        action_names=actions,
        angles=angles,
        units=units,
        bounds=bounds,
        initial_states=initial_states,
    )


def _roll_out(
    world: Any,
    policy: Callable[[Any], ArrayLike],
    *,
    episodes: int,
    seed: int,
    limit: int,
    keys: Sequence[str] | None,
) -> dict[str, Any]:
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    names = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "episodes")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for episode in range(episodes):
        observation, _ = world.reset(seed=seed if episode == 0 else None)
        for step in range(limit):
            action = _applied(policy(observation), world.action_space, step)
            following, reward, terminated, truncated, _ = world.step(action)
            cut = bool(truncated) or step + 1 == limit
            row = (_row(observation, keys), action, reward, _row(following, keys), terminated, cut, episode)
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
            if terminated or cut:
                break
            observation = following
    return {name: np.asarray(values) for name, values in columns.items()}


def _applied(action: ArrayLike, space: Any, step: int) -> Any:
    """Return the action the environment receives: what the policy asks for, within the bounds."""
    array = np.asarray(action, dtype=np.float64)
    if array.size != np.prod(space.shape):
        raise ArgumentError(
            f"the policy returned an action of shape {array.shape} at step {step}; return {space.shape}"
        )
    if not np.isfinite(array).all():
        raise DataError(f"the policy returned NaN or infinities at step {step}; look at what it saw there")
    return np.clip(array.reshape(space.shape).astype(space.dtype), space.low, space.high)


def _row(observation: Any, keys: Sequence[str] | None) -> Any:
    if isinstance(observation, Mapping):
        return np.concatenate([np.ravel(observation[key]) for key in keys or ()]).astype(np.float64)
    return flat([observation])[0]


def _limit(world: Any, max_steps: int | None) -> int:
    spec = getattr(world, "spec", None)
    limit = max_steps if max_steps is not None else getattr(spec, "max_episode_steps", None)
    if limit is None:
        raise ArgumentError(
            "the environment has no time limit; give max_steps, the steps of an episode at most"
        )
    if limit < 1:
        raise ArgumentError(f"max_steps must be at least 1, got {limit}")
    return int(limit)
