"""Minari datasets in and out; the environment a dataset names is never built."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from nopg._typing import ArrayLike
from nopg.data import _metadata
from nopg.data._chains import chains
from nopg.data._hdf5 import check_dataset, check_tree
from nopg.data._schema import Schema
from nopg.data._sizes import check_declared
from nopg.data._spaces import bounds_of, flat, width
from nopg.errors import ArgumentError, DataError, MissingExtraError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["from_minari", "to_minari"]

_EPISODE, _WEIGHT = "nopg_episode", "nopg_weight"
_ARROW_BATCH = 131_072  # Minari reads an Arrow episode as one batch of pyarrow's, which ends here


def from_minari(
    dataset: Any,
    *,
    keys: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    angles: Mapping[str, float] | Sequence[str | int] | None = None,
    units: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    initial_states: ArrayLike | None = None,
    invalid: Literal["raise", "drop"] = "raise",
) -> Transitions:
    """Return the transitions of a Minari dataset; `Transitions.from_minari` says what the arguments mean."""
    from nopg.data._transitions import Transitions

    opened, source = _open(dataset)
    described = opened.storage.metadata.get(_metadata.KEY)
    known, connected = ({}, True) if described is None else _metadata.load(described, source)
    state_columns = width(opened.observation_space, f"{source}: the observation space", keys)
    action_columns = width(opened.action_space, f"{source}: the action space")
    states = tuple(state_names or known.get("states") or Schema.default_names("s", state_columns))
    actions = tuple(action_names or known.get("actions") or Schema.default_names("a", action_columns))
    check_declared(source, int(opened.total_steps), 2 * state_columns + action_columns + 1)

    parts = list(_episodes(opened, source, keys))
    if not parts:
        raise DataError(f"{source}: there are no episodes; record at least one")
    if (
        described is None
        and bounds is None
        and len(states) == state_columns
        and len(actions) == action_columns
    ):
        bounds = bounds_of(opened.observation_space, states, keys) | bounds_of(opened.action_space, actions)
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not connected:
        del columns["episodes"]
    try:
        return Transitions.from_arrays(
            **columns,
            state_names=states,
            action_names=actions,
            angles=known.get("angles") if angles is None else angles,
            units=known.get("units") if units is None else units,
            bounds=known.get("bounds") if bounds is None else bounds,
            initial_states=known.get("initial_states") if initial_states is None else initial_states,
            invalid=invalid,
        )
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def to_minari(
    data: Transitions,
    dataset_id: str,
    *,
    data_format: Literal["hdf5", "arrow", "parquet"] = "hdf5",
    env: Any = None,
    **description: Any,
) -> Any:
    """Write a Minari dataset and return it; `Transitions.to_minari` says what the arguments mean."""
    minari = _minari()
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    runs = chains(data)
    longest = max(run.stop - run.start for run in runs)
    if data_format != "hdf5" and longest >= _ARROW_BATCH:
        raise DataError(
            f"an episode of {longest} steps does not come back whole from Minari's {data_format} files; "
            "write data_format='hdf5'"
        )
    # Minari advises what a dataset to be published should say; it need not be said of a private one.
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*(is set to None|env_spec is None).*", category=UserWarning
        )
        try:
            written = minari.create_dataset_from_buffers(
                dataset_id,
                [EpisodeBuffer(**_buffer(data, run)) for run in runs],
                env=env,
                observation_space=_box(data.schema, data.schema.states, spaces),
                action_space=_box(data.schema, data.schema.actions, spaces),
                data_format=data_format,
                **description,
            )
        except ValueError as error:
            raise ArgumentError(f"Minari cannot write {dataset_id!r}: {error}") from error
    written.storage.update_metadata({_metadata.KEY: _metadata.dump(data)})
    return written


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise MissingExtraError("minari", "minari") from error
    return minari


def _open(dataset: Any) -> tuple[Any, str]:
    """Return the dataset of an id, a folder or an object, and what to call it."""
    minari = _minari()
    if isinstance(dataset, minari.MinariDataset):
        opened = dataset
        _check_files(Path(opened.storage.data_path), opened.id)
        return opened, f"Minari dataset {opened.id!r}"
    if not isinstance(dataset, str | os.PathLike):
        raise DataError(f"dataset is a {type(dataset).__name__}; give a Minari dataset, its id or its folder")

    source = f"Minari dataset {str(dataset)!r}"
    folder = Path(dataset)
    if not folder.is_dir():
        from minari.storage.datasets_root_dir import get_dataset_path

        folder = get_dataset_path(str(dataset))
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not folder.is_dir():
        raise DataError(f"{source} is not on this machine; get it with: minari download {dataset}")
    try:
        _check_files(folder, source)
        return minari.MinariDataset(folder), source
    except DataError:
        raise
    except Exception as error:  # Minari asserts, indexes and parses JSON: any fault of the file lands here
        raise DataError(
            f"{source} cannot be opened ({type(error).__name__}: {error}); write it again"
        ) from error


def _check_files(folder: Path, source: str) -> None:
    """Refuse metadata that would make Minari build an environment, and HDF5 that leads out of the file."""
    from minari.dataset.minari_storage import MinariStorage

    metadata = MinariStorage.read_raw_metadata(folder)
    if not {"observation_space", "action_space"} <= metadata.keys():
        raise DataError(
            f"{source} does not describe its spaces, and the environment it names is not built; "
            "write it with Minari 0.5 or later"
        )
    if (file := folder / "main_data.hdf5").exists():
        import h5py

        with h5py.File(file, "r") as tree:
            for key, array in check_tree(tree, str(file)).items():
                # Infos may hold anything, but they are read too.
                check_dataset(array, f"{file}: {key!r}", numbers=key.count("/") == 1)


def _episodes(opened: Any, source: str, keys: Sequence[str] | None) -> Iterator[dict[str, npt.NDArray[Any]]]:
    for index in opened.episode_indices.tolist():
        try:
            # One at a time: of an Arrow episode in several batches, Minari would give the rest to the next.
            episode = next(iter(opened.storage.get_episodes([index])))
            steps = int(next(iter(opened.storage.get_episode_metadata([index])))["total_steps"])
            observations, actions = flat(episode["observations"], keys), flat(episode["actions"])
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
        infos = episode.get("infos") or {}
        numbers = np.asarray(infos.get(_EPISODE, np.full(steps, index)), dtype=np.int64)[:steps]
        part = {
            "states": observations[:-1],
            "actions": actions,
            "rewards": rewards,
            "next_states": observations[1:],
            "terminated": np.asarray(episode["terminations"]),
            "truncated": np.asarray(episode["truncations"]),
            "episodes": numbers,
        }
        if _WEIGHT in infos:
            part["weights"] = np.asarray(infos[_WEIGHT], dtype=np.float64)[:steps]
        yield part


def _buffer(data: Transitions, rows: slice) -> dict[str, Any]:
    """Return one run as Minari wants it: T steps and T + 1 states, and the number of its episode."""
    steps = rows.stop - rows.start
    number = 0 if data.episodes is None else int(data.episodes[rows.start])
    last = slice(rows.stop - 1, rows.stop)
    infos: dict[str, list[Any]] = {
        _EPISODE: [number] * (steps + 1)
    }  # a list: Minari's Arrow cannot read vectors back
    if data.weights is not None:
        infos[_WEIGHT] = [*data.weights[rows].tolist(), 1.0]
    return {
        "observations": np.concatenate([data.states[rows].numpy(), data.next_states[last].numpy()]),
        "actions": data.actions[rows].numpy(),
        "rewards": data.rewards[rows].numpy(),
        "terminations": data.terminated[rows].numpy(),
        "truncations": data.truncated[rows].numpy(),
        "infos": infos,
    }


def _box(schema: Schema, names: tuple[str, ...], spaces: Any) -> Any:
    low, high = zip(*(schema.bounds.get(name, (-np.inf, np.inf)) for name in names), strict=True)
    return spaces.Box(np.array(low), np.array(high), dtype=np.float64)
