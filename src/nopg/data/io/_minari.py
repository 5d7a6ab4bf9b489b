"""Minari datasets; the environment that a dataset names is never built."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._episodes import contiguous_runs
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions
from nopg.data.io._files import check_declared, extra
from nopg.data.io._gymnasium import flatten, space_columns
from nopg.data.io._hdf5 import check_dataset, find_datasets
from nopg.data.io._metadata import KEY, complete, dump, load
from nopg.data.io._recording import Recording
from nopg.data.io._roles import Settings, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

_EPISODE, _WEIGHT, _BEGINS = "nopg_episode", "nopg_weight", "nopg_begins"
_ARROW_BATCH = 131_072  # Minari reads only the first batch of an Arrow episode, which ends here


def read_minari(
    dataset: Any,
    *,
    keys: Sequence[str] | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    **settings: Unpack[Settings],
) -> Transitions:
    """Read a Minari dataset: every step is a transition, with its flags and the number of its episode.

    Whether the environment can be recovered does not matter: it is never built.

    Args:
        dataset: A `minari.MinariDataset`, the id of one on this machine, or its folder.
        keys: The parts of a dictionary of observations to use, in order.
        state_names: Names of the state columns; those stored, else `s0, s1, …` if absent.
        action_names: Names of the action columns; those stored, else `a0, a1, …` if absent.
        settings: `angles`, `units`, `bounds` (those of the spaces if absent), `initial_states`, `missing`
            ("refuse" or "drop"), … as in `from_dataframe`.
    """
    split_arguments(settings, Settings)
    opened, source = _open(dataset)
    described = opened.storage.metadata.get(KEY)
    known: dict[str, Any] = {} if described is None else load(described, source)
    state_names, action_names = state_names or known.get("states"), action_names or known.get("actions")
    names, bounds = space_columns(opened, state_names, action_names, keys, f"{source}: ")
    check_declared(source, int(opened.total_steps), 2 * len(names[0]) + len(names[1]) + 1)

    parts = list(_episodes(opened, source, keys))
    if not parts:
        raise DataError(f"{source}: there are no episodes; record at least one")
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not known.get("connected", True):
        del columns["episodes"]
    stored = {name: known[name] for name in Settings.__annotations__ if name in known} or {"bounds": bounds}
    recording = Recording(source=source, names=names, **columns)
    return to_transitions(recording, **complete(stored, settings))


def write_minari(
    data: Transitions,
    dataset_id: str,
    *,
    data_format: Literal["hdf5", "arrow", "parquet"] = "hdf5",
    env: Any = None,
    **description: Any,
) -> Any:
    """Write a Minari dataset into Minari's folder, and return it.

    Minari stores T + 1 states for T steps. Rows in which a next state is not the next row's state, and
    rows without episodes, become episodes of their own; `read_minari` joins them again.

    Args:
        data: The transitions.
        dataset_id: For example `plant/pump-v0`.
        data_format: How the numbers are stored; floats are read back to the bit from each.
        env: The environment, its id or its spec, where there is one.
        description: `author`, `algorithm_name`, `description`, … of `minari.create_dataset_from_buffers`.
    """
    minari = extra("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    runs = contiguous_runs(data)
    longest = max(run.stop - run.start for run in runs)
    if data_format != "hdf5" and longest >= _ARROW_BATCH:
        raise DataError(
            f"an episode of {longest} steps cannot be read back whole from Minari's {data_format} files; "
            "write data_format='hdf5'"
        )
    # Minari warns about fields that only a published dataset needs.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(is set to None|env_spec is None).*", UserWarning)
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
    written.storage.update_metadata({KEY: dump(data)})
    return written


def _open(dataset: Any) -> tuple[Any, str]:
    """Return the dataset of an id, a folder or an object, and its name in errors."""
    minari = extra("minari")
    if isinstance(dataset, minari.MinariDataset):
        _check_files(Path(dataset.storage.data_path), dataset.id)
        return dataset, f"Minari dataset {dataset.id!r}"
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
    except Exception as error:  # of any kind: Minari asserts, indexes and parses JSON
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{source} cannot be opened ({reason}); write it again") from error


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
            for key, array in find_datasets(tree, str(file)).items():
                # Infos may hold any type, but Minari reads them too.
                check_dataset(array, f"{file}: {key!r}", numbers=key.count("/") == 1)


def _episodes(opened: Any, source: str, keys: Sequence[str] | None) -> Iterator[dict[str, npt.NDArray[Any]]]:
    for index in opened.episode_indices.tolist():
        try:
            # One at a time: Minari would assign the later batches of an Arrow episode to the next one.
            episode = next(iter(opened.storage.get_episodes([index])))
            steps = int(next(iter(opened.storage.get_episode_metadata([index])))["total_steps"])
            observations, actions = flatten(episode["observations"], keys), flatten(episode["actions"])
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
            "terminated": np.asarray(episode["terminations"], dtype=np.bool_),
            "truncated": np.asarray(episode["truncations"], dtype=np.bool_),
            "episodes": numbers,
        }
        if _WEIGHT in infos:
            part["weights"] = np.asarray(infos[_WEIGHT], dtype=np.float64)[:steps]
        if _BEGINS in infos:
            part["begins"] = np.asarray(infos[_BEGINS], dtype=np.bool_)[:steps]
        yield part


def _buffer(data: Transitions, rows: slice) -> dict[str, Any]:
    """Return one run as a Minari episode: T steps and T + 1 states, and the number of its episode."""
    steps = rows.stop - rows.start
    number = 0 if data.episodes is None else int(data.episodes[rows.start])
    last = slice(rows.stop - 1, rows.stop)
    # Lists: Minari's Arrow cannot read vectors back.
    infos: dict[str, list[Any]] = {_EPISODE: [number] * (steps + 1)}
    if data.weights is not None:
        infos[_WEIGHT] = [*data.weights[rows].tolist(), 1.0]
    if data.begins is not None:
        infos[_BEGINS] = [*map(int, data.begins[rows]), 0]
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
