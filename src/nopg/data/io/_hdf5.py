"""HDF5 files, as D4RL and many loggers write them; links to other files are refused."""

from __future__ import annotations

import os
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._transitions import Transitions
from nopg.data.io._columns import record
from nopg.data.io._files import check_declared, check_stored, existing_file, extra
from nopg.data.io._roles import Keys, resolve_keys, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError


def read_hdf5(path: str | os.PathLike[str], **keys: Unpack[Keys]) -> Transitions:
    """Read an HDF5 file: D4RL's keys by default, others by name.

    Links and arrays that are stored in other files are refused.

    Args:
        path: The file.
        keys: For `states`, `actions` and `next_states` the key of a matrix or a list of keys of vectors
            (`observations`, `actions`, `next_observations` if absent); for `reward`, `terminated`,
            `truncated`, `episode`, `time`, `weight` the key of a vector (`rewards`, `terminals`,
            `timeouts`, …); `state_names` and `action_names`; the settings of `from_dataframe`.
    """
    h5py = extra("h5py")
    file = existing_file(path)
    given, settings = split_arguments(keys, Keys)
    try:
        with h5py.File(file, "r") as tree:
            found = find_datasets(tree, str(file))
            roles = resolve_keys(list(found), str(file), **given)
            recording = record(lambda key: _read(found[key], f"{file}: {key!r}"), roles, str(file))
    except (OSError, RuntimeError) as error:
        raise DataError(f"{file} cannot be read as HDF5 ({error}); write it again") from error
    return to_transitions(recording, **settings)


def find_datasets(tree: Any, source: str) -> dict[str, Any]:
    """Return every dataset by its path; links are refused, because they may lead to other files."""
    import h5py

    found: dict[str, Any] = {}
    pending = [("", tree)]
    while pending:
        prefix, group = pending.pop()
        for name in group:
            key, link = f"{prefix}{name}", group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise DataError(
                    f"{source}: {key!r} is a link to {getattr(link, 'filename', 'elsewhere')!r}; links are "
                    "not followed. Copy the data into the file"
                )
            item = group[name]
            if isinstance(item, h5py.Group):
                # A hard link to a parent group would make the search endless.
                if key.count("/") > 20:
                    raise DataError(f"{source}: groups are nested more than 20 deep at {key!r}; flatten them")
                pending.append((f"{key}/", item))
            elif isinstance(item, h5py.Dataset):
                found[key] = item
    return found


def check_dataset(dataset: Any, source: str, *, numbers: bool = True) -> None:
    """Refuse an array that lies in another file, holds no numbers, or declares more than it stores."""
    if dataset.external or dataset.is_virtual:
        raise DataError(f"{source} lies in another file; copy the data into this one")
    if numbers and dataset.dtype.kind not in "fiub":
        raise DataError(f"{source} holds {dataset.dtype}; give real numbers (text and objects are not read)")
    if not dataset.shape:  # a scalar, or empty
        if not numbers:
            return
        raise DataError(f"{source} is a single value; give one entry per row")
    columns = int(np.prod(dataset.shape[1:], dtype=object))
    check_declared(source, dataset.shape[0], columns)
    filtered = dataset.id.get_create_plist().get_nfilters() > 0
    check_stored(source, dataset.nbytes, dataset.id.get_storage_size(), compressed=filtered)


def _read(dataset: Any, source: str) -> npt.NDArray[Any]:
    check_dataset(dataset, source)
    return np.asarray(dataset[()])
