"""Files of named arrays: D4RL's keys by default, any others by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._assembly import transitions_of
from nopg.data._columns import Settings, usual
from nopg.data._numbers import as_episode_numbers, as_flag_column, as_number_column, as_seconds
from nopg.data._recording import Recording
from nopg.data._schema import Schema
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["Keys", "from_keyed"]

_Array = npt.NDArray[Any]
_USUAL_KEYS: Mapping[str, tuple[str, ...]] = {
    "states": ("observations", "states"),
    "actions": ("actions",),
    "reward": ("rewards", "reward"),
    "next_states": ("next_observations", "next_states"),
}


class Keys(Settings, total=False):
    """Where the arrays of a file are: one key of a matrix, or a list of keys of vectors; and the settings."""

    states: str | Sequence[str] | None
    actions: str | Sequence[str] | None
    reward: str | None
    next_states: str | Sequence[str] | None
    terminated: str | Literal[False] | None
    truncated: str | Literal[False] | None
    episode: str | Literal[False] | None
    time: str | None
    weight: str | None
    state_names: Sequence[str] | None
    action_names: Sequence[str] | None


def from_keyed(
    keys: Sequence[str], read: Callable[[str], _Array], source: str, **given: Unpack[Keys]
) -> Transitions:
    """Return the transitions of a file of arrays.

    Args:
        keys: The keys the file has.
        read: Reads the array of a key, after checking what it declares.
        source: Name of the file, for errors.
        given: Which key plays which role, and the settings.
    """
    unknown = [name for name in given if name not in Keys.__annotations__]
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; known are {sorted(Keys.__annotations__)}")
    states, state_names = _block("states", given.get("states"), keys, read, source)
    actions, action_names = _block("actions", given.get("actions"), keys, read, source)
    reward_key = given.get("reward") or _usual_key("reward", keys, source)
    rewards = as_number_column(_column(read(_present(reward_key, keys, source))), reward_key, source)

    next_key = given.get("next_states") or next((k for k in _USUAL_KEYS["next_states"] if k in keys), None)
    following = None
    if next_key is not None and next_key != "shift":
        following, _ = _block("next_states", next_key, keys, read, source)
    terminated = _flags("terminated", given.get("terminated"), keys, read, source)
    truncated = _flags("truncated", given.get("truncated"), keys, read, source)
    episode, time = given.get("episode"), given.get("time")
    episode = usual("episode", keys) if episode is None else episode
    weight = given.get("weight")
    recording = Recording(
        source=source,
        states=states,
        actions=actions,
        rewards=rewards,
        names=(
            _names("s", given.get("state_names") or state_names, states.shape[1], source),
            _names("a", given.get("action_names") or action_names, actions.shape[1], source),
        ),
        next_states=following,
        terminated=terminated,
        truncated=truncated,
        episodes=as_episode_numbers(_column(read(_present(episode, keys, source))), episode, source)
        if episode
        else None,
        seconds=as_seconds(_column(read(_present(time, keys, source))), time, source) if time else None,
        weights=as_number_column(_column(read(_present(weight, keys, source))), weight, source)
        if weight
        else None,
    )
    settings = {name: value for name, value in given.items() if name in Settings.__annotations__}
    return transitions_of(recording, **settings)  # type: ignore[arg-type]


def _block(
    role: str,
    key: str | Sequence[str] | None,
    keys: Sequence[str],
    read: Callable[[str], _Array],
    source: str,
) -> tuple[npt.NDArray[np.float64], tuple[str, ...] | None]:
    """Return the matrix of a role, and the names of its columns if it came in columns."""
    key = _usual_key(role, keys, source) if key is None else key
    if not isinstance(key, str):
        columns = [as_number_column(_column(read(_present(k, keys, source))), k, source) for k in key]
        if not columns or len({len(column) for column in columns}) > 1:
            raise DataError(
                f"{source}: {role} {list(key)} have {[len(c) for c in columns]} rows; give equal ones"
            )
        return np.stack(columns, axis=1), tuple(key)

    matrix = read(_present(key, keys, source))
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(f"{source}: {key!r} has shape {matrix.shape}; {role} need (rows, columns)")
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{source}: {key!r} holds {matrix.dtype}; give real numbers")
    return np.ascontiguousarray(matrix, dtype=np.float64), None


def _flags(
    role: str,
    key: str | Literal[False] | None,
    keys: Sequence[str],
    read: Callable[[str], _Array],
    source: str,
) -> npt.NDArray[np.bool_] | None:
    found = usual(role, keys) if key is None else key
    return as_flag_column(_column(read(_present(found, keys, source))), found, source) if found else None


def _usual_key(role: str, keys: Sequence[str], source: str) -> str:
    for key in _USUAL_KEYS[role]:
        if key in keys:
            return key
    raise DataError(
        f"{source}: there is no {' or '.join(map(repr, _USUAL_KEYS[role]))}; say where the {role} are. "
        f"The file has: {_listed(keys)}"
    )


def _present(key: str, keys: Sequence[str], source: str) -> str:
    if key not in keys:
        raise DataError(f"{source}: there is no {key!r}; the file has: {_listed(keys)}")
    return key


def _column(values: _Array) -> _Array:
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _names(prefix: str, names: Sequence[str] | None, count: int, source: str) -> tuple[str, ...]:
    if names is None:
        return Schema.default_names(prefix, count)
    if isinstance(names, str) or len(set(names)) != count or len(names) != count:
        raise DataError(f"{source}: names {names!r} for {count} columns; give one distinct name for each")
    return tuple(names)


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:20]) + (", …" if len(keys) > 20 else "") if keys else "nothing"
