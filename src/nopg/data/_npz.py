"""NumPy's own archives, never with pickles."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._keyed import Keys, from_keyed
from nopg.data._sizes import check_declared, check_stored, existing_file
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["from_npz"]

_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def from_npz(path: str | os.PathLike[str], **keys: Unpack[Keys]) -> Transitions:
    """Return the transitions of an `.npz` archive."""
    file = existing_file(path)
    try:
        with zipfile.ZipFile(file) as archive:
            found = {name.removesuffix(".npy"): name for name in archive.namelist()}
            return from_keyed(
                list(found), lambda key: _read(archive, found[key], f"{file}: {key!r}"), str(file), **keys
            )
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{file} is not an .npz archive ({error}); write it with numpy.savez(…, states=…, actions=…)"
        ) from error


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
        check_stored(
            source,
            entries * dtype.itemsize,
            archive.getinfo(member).compress_size,
            compressed=archive.getinfo(member).compress_type != zipfile.ZIP_STORED,
        )
        with archive.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except DataError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise DataError(f"{source} is damaged ({error}); write the archive again") from error
