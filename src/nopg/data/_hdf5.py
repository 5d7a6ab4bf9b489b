"""HDF5 files, as D4RL and many loggers write them, without what could lead out of the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._keyed import Keys, from_keyed
from nopg.data._sizes import check_declared, check_stored, existing_file
from nopg.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["check_tree", "from_hdf5"]


def from_hdf5(path: str | os.PathLike[str], **keys: Unpack[Keys]) -> Transitions:
    """Return the transitions of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError("h5py", "hdf5") from error

    file = existing_file(path)
    try:
        with h5py.File(file, "r") as tree:
            found = check_tree(tree, str(file))
            return from_keyed(
                list(found), lambda key: _read(found[key], f"{file}: {key!r}"), str(file), **keys
            )
    except (OSError, RuntimeError) as error:
        raise DataError(f"{file} cannot be read as HDF5 ({error}); write it again") from error


def check_tree(tree: Any, source: str) -> dict[str, Any]:
    """Return every dataset by its path, having refused links: they may lead to other files."""
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
                # A hard link to a group above would make the walk endless.
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
