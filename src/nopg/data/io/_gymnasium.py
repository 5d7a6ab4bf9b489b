"""Rollouts in a Gymnasium environment, and Gymnasium's spaces of real vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg._typing import ArrayLike
from nopg.data._schema import name_columns
from nopg.data._transitions import Transitions
from nopg.data.io._files import extra
from nopg.data.io._recording import Recording
from nopg.data.io._roles import Settings, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError


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
    **settings: Unpack[Settings],
) -> Transitions:
    """Roll out a policy and keep every step, with the action that was applied.

    Args:
        env: A Gymnasium environment, or the id of one.
        policy: Maps an observation to an action; it is clipped to the bounds of the action space.
        episodes: Number of episodes, each to its end or its time limit.
        seed: Given to the first reset.
        max_steps: A shorter time limit.
        keys: The parts of a dictionary of observations to use, in order.
        state_names: Names of the state columns; `s0, s1, …` if absent.
        action_names: Names of the action columns; `a0, a1, …` if absent.
        settings: `angles`, `units`, `bounds` (those of the spaces if absent), `initial_states`, `missing`
            ("refuse" or "drop"), … as in `from_dataframe`.
    """
    gymnasium = extra("gymnasium")
    split_arguments(settings, Settings)
    if episodes < 1:
        raise ArgumentError(f"episodes must be at least 1, got {episodes}")
    opened = gymnasium.make(env) if isinstance(env, str) else env
    try:
        names, bounds = space_columns(opened, state_names, action_names, keys)
        steps = _rollout(opened, policy, episodes, seed, _time_limit(opened, max_steps))
    finally:
        if opened is not env:
            opened.close()
    observations, actions, rewards, following, terminated, truncated, numbers = zip(*steps, strict=True)
    recording = Recording(
        source="the environment",
        states=_stack(observations, keys),
        actions=flatten(actions),
        rewards=np.array(rewards, dtype=np.float64).reshape(-1),
        names=names,
        next_states=_stack(following, keys),
        terminated=np.array(terminated, dtype=np.bool_),
        truncated=np.array(truncated, dtype=np.bool_),
        episodes=np.array(numbers, dtype=np.int64),
    )
    if settings.get("bounds") is None:
        settings["bounds"] = bounds
    return to_transitions(recording, **settings)


def space_columns(
    owner: Any,
    state_names: Sequence[str] | None,
    action_names: Sequence[str] | None,
    keys: Sequence[str] | None,
    source: str = "",
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], dict[str, tuple[float, float]]]:
    """Return the names and the finite bounds of the columns of the owner's observations and actions."""
    boxes = (
        _boxes(owner.observation_space, f"{source}the observation space", keys),
        _boxes(owner.action_space, f"{source}the action space"),
    )
    widths = sum(box.low.size for box in boxes[0]), sum(box.low.size for box in boxes[1])
    names = name_columns(state_names, action_names, widths, source)
    both = [*boxes[0], *boxes[1]]
    low, high = np.concatenate([[box.low.ravel(), box.high.ravel()] for box in both], axis=1).tolist()
    bounds = zip((*names[0], *names[1]), low, high, strict=True)
    return names, {name: (a, b) for name, a, b in bounds if -math.inf < a < b < math.inf}


def flatten(value: Any, keys: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """Return rows (n, d) of observations or actions, the chosen parts of a dictionary side by side."""
    if isinstance(value, Mapping):
        return np.concatenate([flatten(value[key]) for key in keys or ()], axis=1)
    array = np.asarray(value, dtype=np.float64)
    return array.reshape(len(array), -1)


def _boxes(space: Any, what: str, keys: Sequence[str] | None = None) -> list[Any]:
    """Return the boxes of a space; one that is not made of boxes with one axis is refused."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        if keys is None:
            raise DataError(f"{what} is a dictionary of {list(space.spaces)}; choose parts with keys=[…]")
        if missing := [key for key in keys if key not in space.spaces]:
            raise DataError(f"{what} has no part {missing[0]!r}; it has {list(space.spaces)}")
        return [box for key in keys for box in _boxes(space.spaces[key], f"{what} {key!r}")]
    if isinstance(space, spaces.Box) and len(space.shape) <= 1:
        return [space]
    raise DataError(
        f"{what} is {space}; kernels need vectors of real numbers (a Box with one axis). Discrete and image "
        "spaces cannot be used"
    )


def _rollout(
    env: Any, policy: Callable[[Any], ArrayLike], episodes: int, seed: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return (s, a, r, s′, terminated, truncated, episode) of every step."""
    steps = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        for step in range(limit):
            action = _applied(policy(observation), env.action_space, step)
            following, reward, terminated, truncated, _ = env.step(action)
            truncated = bool(truncated) or step + 1 == limit
            steps.append((observation, action, reward, following, terminated, truncated, episode))
            if terminated or truncated:
                break
            observation = following
    return steps


def _applied(action: ArrayLike, space: Any, step: int) -> Any:
    """Return the action the environment receives: the policy's, within the bounds."""
    array = np.asarray(action, dtype=np.float64)
    if array.size != np.prod(space.shape):
        raise ArgumentError(
            f"the policy returned an action of shape {array.shape} at step {step}; return {space.shape}"
        )
    if not np.isfinite(array).all():
        raise DataError(f"the policy returned NaN or infinities at step {step}; check its observation there")
    return np.clip(array.reshape(space.shape).astype(space.dtype), space.low, space.high)


def _stack(observations: Sequence[Any], keys: Sequence[str] | None) -> npt.NDArray[np.float64]:
    if isinstance(observations[0], Mapping):
        return flatten({key: [value[key] for value in observations] for key in keys or ()}, keys)
    return flatten(observations)


def _time_limit(env: Any, max_steps: int | None) -> int:
    spec = getattr(env, "spec", None)
    limit = max_steps if max_steps is not None else getattr(spec, "max_episode_steps", None)
    if limit is None:
        raise ArgumentError("the environment has no time limit; give max_steps, the most steps of an episode")
    if limit < 1:
        raise ArgumentError(f"max_steps must be at least 1, got {limit}")
    return int(limit)
