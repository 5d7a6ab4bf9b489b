"""Minari datasets; the environment that a dataset names is never built."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.data._schema import name_columns
from nopg.data._transitions import Transitions
from nopg.data.io._clock import Recording
from nopg.data.io._files import extra
from nopg.data.io._roles import Settings, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError


def read_minari(
    dataset: Any,
    *,
    keys: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    **settings: Unpack[Settings],
) -> Transitions:
    """Read a Minari dataset: every step is a transition. The environment that it names is never built.

    Args:
        dataset: A `minari.MinariDataset`, the id of one on this machine, or its folder.
        keys: The parts of a dictionary of observations to use, in order.
        state_names: Names of the state columns; `s0, s1, …` if absent.
        action_names: Names of the action columns; `a0, a1, …` if absent.
        settings: `angles`, `units`, `bounds` (those of the spaces if absent), `initial_states`, `missing`
            ("refuse" or "drop"), … as in `from_dataframe`.
    """
    split_arguments(settings, Settings)
    opened, source = _open(dataset)
    of_states = _ends(opened.observation_space, f"{source}: the observation space", keys)
    of_actions = _ends(opened.action_space, f"{source}: the action space")
    widths = of_states.shape[1], of_actions.shape[1]
    names = name_columns(state_names, action_names, widths, f"{source}: ")
    parts = list(_episodes(opened, source, keys))
    if not parts:
        raise DataError(f"{source}: there are no episodes; record at least one")
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if settings.get("bounds") is None:
        low, high = np.concatenate([of_states, of_actions], axis=1).tolist()
        bounds = zip((*names[0], *names[1]), low, high, strict=True)
        settings["bounds"] = {name: (a, b) for name, a, b in bounds if -math.inf < a < b < math.inf}
    return to_transitions(Recording(Source(source), names, columns), **settings)


def _open(dataset: Any) -> tuple[Any, str]:
    """Return the dataset of an id, a folder or an object, and its name in errors."""
    minari = extra("minari")
    from minari.dataset.minari_storage import MinariStorage
    from minari.storage.datasets_root_dir import get_dataset_path

    is_open = isinstance(dataset, minari.MinariDataset)
    if not is_open and not isinstance(dataset, str | os.PathLike):
        raise DataError(f"dataset is a {type(dataset).__name__}; give a Minari dataset, its id or its folder")
    source = f"Minari dataset {(dataset.id if is_open else str(dataset))!r}"
    folder = Path(dataset.storage.data_path if is_open else dataset)
    folder = folder if folder.is_dir() else get_dataset_path(str(dataset))
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not folder.is_dir():
        raise DataError(f"{source} is not on this machine; get it with: minari download {dataset}")
    try:
        if {"observation_space", "action_space"} <= MinariStorage.read_raw_metadata(folder).keys():
            return dataset if is_open else minari.MinariDataset(folder), source
    except Exception as error:  # of any kind: Minari asserts, indexes and parses JSON
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{source} cannot be opened ({reason}); write it again") from error
    raise DataError(
        f"{source} does not describe its spaces, and the environment it names is not built; write it with "
        "Minari 0.5 or later"
    )


def _episodes(opened: Any, source: str, keys: Sequence[str] | None) -> Iterator[dict[str, npt.NDArray[Any]]]:
    for index in opened.episode_indices.tolist():
        try:
            # One at a time: Minari would assign the later batches of an Arrow episode to the next one.
            episode = next(iter(opened.storage.get_episodes([index])))
            steps = int(next(iter(opened.storage.get_episode_metadata([index])))["total_steps"])
            observations, actions = _flatten(episode["observations"], keys), _flatten(episode["actions"])
            rewards = np.asarray(episode["rewards"], dtype=np.float64).reshape(-1)
        except Exception as error:  # as above
            raise DataError(
                f"{source}: episode {index} cannot be read ({type(error).__name__}: {error}); write it again"
            ) from error
        lengths = (len(observations) - 1, len(actions), len(rewards), len(episode["terminations"]))
        if set(lengths) != {steps}:
            raise DataError(
                f"{source}: episode {index} declares {steps} steps, but has states for {lengths[0]}, "
                f"{lengths[1]} actions, {lengths[2]} rewards and {lengths[3]} flags"
            )
        yield {
            "states": observations[:-1],
            "actions": actions,
            "rewards": rewards,
            "next_states": observations[1:],
            "terminated": np.asarray(episode["terminations"], dtype=np.bool_),
            "truncated": np.asarray(episode["truncations"], dtype=np.bool_),
            "episodes": np.full(steps, index),
        }


def _flatten(value: Any, keys: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """Return rows (n, d) of observations or actions, the chosen parts of a dictionary side by side."""
    if isinstance(value, Mapping):
        return np.concatenate([_flatten(value[key]) for key in keys or ()], axis=1)
    array = np.asarray(value, dtype=np.float64)
    return array.reshape(len(array), -1)


def _ends(space: Any, what: str, keys: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """Return the lowest and highest values (2, d) of a space made of boxes with one axis; refuse others."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        if keys is None:
            raise DataError(f"{what} is a dictionary of {list(space.spaces)}; choose parts with keys=[…]")
        if missing := [key for key in keys if key not in space.spaces]:
            raise DataError(f"{what} has no part {missing[0]!r}; it has {list(space.spaces)}")
        return np.concatenate([_ends(space.spaces[key], f"{what} {key!r}") for key in keys], axis=1)
    if isinstance(space, spaces.Box) and len(space.shape) <= 1:
        return np.array([space.low.ravel(), space.high.ravel()], dtype=np.float64)
    raise DataError(
        f"{what} is {space}; kernels need vectors of real numbers (a Box with one axis). Discrete and image "
        "spaces cannot be used"
    )
