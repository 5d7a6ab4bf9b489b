"""The folder or zip of a bundle, read as untrusted input.

Only regular files are read, never through a link, never more bytes than a file has. The members of a zip must
be stored without compression, so that they cannot be larger than the file.
"""

from __future__ import annotations

import os
import stat
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from nopg._files import replaced_by
from nopg.errors import BundleError

_MOST_MEMBERS = 32


class Container(ABC):
    """Members by name, as bytes.

    Attributes:
        path: Of the folder or zip.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def read(self, name: str, most: int) -> bytes:
        """Return a member of at most `most` bytes."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return the names of all files in it, whether or not a manifest lists them."""

    def is_as_written(self, members: Mapping[str, bytes]) -> bool:
        """Return whether its bytes are those that nopg writes for these members; true for a folder."""
        del members
        return True

    def refuse(self, name: str, why: str) -> BundleError:
        """Return the error for a member."""
        return BundleError(f"{self.path}: {name} {why}; save the controller again, or take another copy")


def open_container(path: Path) -> Container:
    """Return the folder or the zip at a path."""
    if path.is_dir():
        return _Folder(path)
    if path.is_file():
        return _Zip(path)
    former = replaced_by(path)
    found = "" if former is None else f" (a process that was replacing one has died; it is in {former})"
    raise BundleError(
        f"there is no saved controller at {path}{found}; give a folder or zip that save() wrote"
    )


def write_zip(stream: BinaryIO, members: Mapping[str, bytes]) -> None:
    """Write members to a zip, the same bytes on every machine."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3
            archive.writestr(entry, content)


class _Folder(Container):
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(os.listdir(self.path)))

    def read(self, name: str, most: int) -> bytes:
        try:
            # No links, and no waiting for a pipe without a writer.
            member = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise self.refuse(name, f"cannot be read ({error.strerror})") from None
        try:
            found = os.fstat(member)
            if not stat.S_ISREG(found.st_mode):
                raise self.refuse(name, "is not a regular file")
            if found.st_size > most:
                raise self.refuse(name, f"has {found.st_size} bytes, over {most}")
            with os.fdopen(member, "rb", closefd=False) as stream:
                return stream.read(most)
        finally:
            os.close(member)


class _Zip(Container):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except Exception as error:  # a hostile zip can raise any exception
            raise BundleError(f"{path} is not a readable zip ({error}); take another copy") from None
        self._entries = {entry.filename: entry for entry in entries}
        if len(entries) > _MOST_MEMBERS or len(self._entries) < len(entries):
            raise BundleError(f"{path} holds {len(entries)} members, or one twice; this is no bundle")

    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def is_as_written(self, members: Mapping[str, bytes]) -> bool:
        expected = BytesIO()
        write_zip(expected, members)
        with self.path.open("rb") as stream:
            return stream.read(expected.tell() + 1) == expected.getvalue()

    def read(self, name: str, most: int) -> bytes:
        if name not in self._entries:
            raise self.refuse(name, "is missing")
        entry = self._entries[name]
        plain = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
        if not plain or entry.flag_bits & 1:
            raise self.refuse(name, "is compressed or encrypted")
        if entry.file_size > min(most, self.path.stat().st_size):
            raise self.refuse(name, f"claims {entry.file_size} bytes")
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(entry) as stream:
                return stream.read(most)
        except Exception as error:
            raise self.refuse(name, f"cannot be read ({error})") from None
