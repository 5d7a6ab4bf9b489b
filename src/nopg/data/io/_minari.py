"""Minari datasets; the environment that a dataset names is never built."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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

_SPACES = ("observation", "action")


def read_minari(
    dataset: str | Path,
    *,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    **settings: Unpack[Settings],
) -> Transitions:
    """Read a Minari dataset: every step is a transition. The environment that it names is never built.

    Args:
        dataset: The id of a dataset on this machine, or its folder.
        state_names: Names of the state columns; `s0, s1, …` if absent.
        action_names: Names of the action columns; `a0, a1, …` if absent.
        settings: `angles`, `units`, `bounds` (those of the spaces if absent), `initial_states`, `missing`
            ("refuse" or "drop"), … as in `from_dataframe`.
    """
    split_arguments(settings, Settings)
    source = f"Minari dataset {str(dataset)!r}"
    opened = _open(dataset, source)
    low, high = np.concatenate(
        [_ends(getattr(opened, f"{kind}_space"), f"{source}: the {kind} space") for kind in _SPACES], axis=1
    )
    parts = list(_episodes(opened, source))
    if not parts:
        raise DataError(f"{source}: there are no episodes; record at least one")
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    widths = columns["states"].shape[1], columns["actions"].shape[1]
    names = name_columns(state_names, action_names, widths, f"{source}: ")
    if settings.get("bounds") is None:
        bounds = zip((*names[0], *names[1]), low.tolist(), high.tolist(), strict=True)
        settings["bounds"] = {name: (a, b) for name, a, b in bounds if -math.inf < a < b < math.inf}
    return to_transitions(Recording(Source(source), names, columns), **settings)


def _open(dataset: str | Path, source: str) -> Any:
    """Return the dataset of an id or a folder; one without spaces would build its environment."""
    minari = extra("minari")
    from minari.dataset.minari_storage import MinariStorage
    from minari.storage.datasets_root_dir import get_dataset_path

    if not isinstance(dataset, str | Path):
        raise DataError(
            f"dataset is a {type(dataset).__name__}; give the id of a Minari dataset or its folder"
        )
    folder = Path(dataset) if Path(dataset).is_dir() else get_dataset_path(str(dataset))
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not folder.is_dir():
        raise DataError(f"{source} is not on this machine; get it with: minari download {dataset}")
    try:
        if {f"{kind}_space" for kind in _SPACES} <= MinariStorage.read_raw_metadata(folder).keys():
            return minari.MinariDataset(folder)
    except Exception as error:  # of any kind: Minari asserts, indexes and parses JSON
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{source} cannot be opened ({reason}); write it again") from error
    raise DataError(
        f"{source} does not describe its spaces, and the environment it names is not built; write it with "
        "Minari 0.5 or later"
    )


def _episodes(opened: Any, source: str) -> Iterator[dict[str, npt.NDArray[Any]]]:
    for index in opened.episode_indices.tolist():
        try:
            # One at a time: Minari would assign the later batches of an Arrow episode to the next one.
            episode = next(iter(opened.storage.get_episodes([index])))
            observations, actions = (
                np.asarray(episode[name], dtype=np.float64).reshape(len(episode[name]), -1)
                for name in ("observations", "actions")
            )
            parts = {
                "states": observations[:-1],
                "actions": actions,
                "rewards": np.asarray(episode["rewards"], dtype=np.float64).reshape(-1),
                "next_states": observations[1:],
                "terminated": np.asarray(episode["terminations"], dtype=np.bool_),
                "truncated": np.asarray(episode["truncations"], dtype=np.bool_),
                "episodes": np.full(len(actions), index),
            }
        except Exception as error:  # as above
            raise DataError(
                f"{source}: episode {index} cannot be read ({type(error).__name__}: {error}); write it again"
            ) from error
        lengths = {name: len(part) for name, part in parts.items()}
        if len({*lengths.values()}) > 1:
            raise DataError(f"{source}: episode {index} has unequal numbers of steps: {lengths}")
        yield parts


def _ends(space: Any, what: str) -> npt.NDArray[np.float64]:
    """Return the lowest and highest values (2, d) of a box with one axis; refuse other spaces."""
    if type(space).__name__ == "Box" and len(space.shape) <= 1:
        return np.array([space.low.ravel(), space.high.ravel()], dtype=np.float64)
    raise DataError(
        f"{what} is {space}; kernels need vectors of real numbers (a Box with one axis). Pass arrays of the "
        "parts to use to Transitions.from_arrays"
    )
