"""NumPy's archives, never with pickles."""

from __future__ import annotations

import os
import zipfile
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._transitions import Transitions
from nopg.data.io._columns import record
from nopg.data.io._files import check_declared, check_stored, existing_file
from nopg.data.io._roles import Keys, resolve_keys, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError

_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: str | os.PathLike[str], **keys: Unpack[Keys]) -> Transitions:
    """Read an archive of `numpy.savez`; pickles in it are never loaded.

    Args:
        path: The file.
        keys: As in `read_hdf5`.
    """
    file = existing_file(path)
    given, settings = split_arguments(keys, Keys)
    try:
        with zipfile.ZipFile(file) as archive:
            found = {name.removesuffix(".npy"): name for name in archive.namelist()}
            roles = resolve_keys(list(found), str(file), **given)
            recording = record(lambda key: _read(archive, found[key], f"{file}: {key!r}"), roles, str(file))
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{file} is not an .npz archive ({error}); write it with numpy.savez(…, states=…, actions=…)"
        ) from error
    return to_transitions(recording, **settings)


def _read(archive: zipfile.ZipFile, member: str, source: str) -> npt.NDArray[Any]:
    try:
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            if version not in _HEADER_READERS:
                raise DataError(f"{source} has the unknown format {version}; write it with numpy.savez")
            shape, _, dtype = _HEADER_READERS[version](stream)
        if dtype.hasobject:
            raise DataError(f"{source} holds pickled objects, which are never loaded; save plain numbers")
        if len(shape) == 0:
            raise DataError(f"{source} is a single value; give one entry per row")
        entries = int(np.prod(shape, dtype=object))
        check_declared(source, shape[0], entries // max(shape[0], 1))
        stored = archive.getinfo(member)
        compressed = stored.compress_type != zipfile.ZIP_STORED
        check_stored(source, entries * dtype.itemsize, stored.compress_size, compressed=compressed)
        with archive.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except DataError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise DataError(f"{source} is damaged ({error}); write the archive again") from error
