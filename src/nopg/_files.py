"""Files and folders that are whole under their names, whatever kills the process or fills the disk.

Everything is written under a temporary name beside its target, flushed to the disk, and renamed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together, each atomically and in order.

    All of them are on the disk under temporary names before the first one is renamed.
    """
    unfinished = {path: _temporary(path, "unfinished") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(path)
            write_new(unfinished[path], content)
        for path in files:
            unfinished[path].replace(path)
            flush_folder(path.parent)
    finally:
        for path in unfinished.values():
            _remove(path)


def write_whole(target: Path, write: Callable[[Path], None]) -> None:
    """Write a folder or a file by a function that takes its temporary path, and put it in place.

    What is at the target is replaced, a folder too: in one step on Linux, elsewhere in two, between which the
    former one has another name; see `replaced_by`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() and (former := replaced_by(target)) is not None:
        former.rename(target)
    _remove_leftovers(target)
    unfinished = _temporary(target, "unfinished")
    try:
        write(unfinished)
        _put_in_place(unfinished, target)
    finally:
        _remove(unfinished)


def replaced_by(target: Path) -> Path | None:
    """Return what was at a path when a process died that was about to replace it, if nothing is there now."""
    return next((path for path in _leftovers(target) if path.suffix == ".replaced"), None)


def write_new(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as stream:
        stream.write(content)
        flush(stream)


def flush(stream: BinaryIO) -> None:
    """Wait until what was written is on the disk."""
    stream.flush()
    os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # Windows has no such thing for folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(unfinished: Path, target: Path) -> None:
    """Rename to the final name; a folder that is there is exchanged, because it cannot be replaced."""
    former = _temporary(target, "replaced")
    if not target.is_dir():
        unfinished.replace(target)
    elif not _exchange(unfinished, target):
        target.rename(former)
        unfinished.replace(target)
    flush_folder(target.parent)
    _remove(former)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; return whether the system could."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):  # a C library without it
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _temporary(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")


def _leftovers(path: Path) -> list[Path]:
    """Return temporary paths of a target that processes have left behind.

    A process of the same number as this one has ended: nothing is left of what this one has written.
    """
    form = re.compile(re.escape(f".{path.name}.") + r"(\d+)\.(unfinished|replaced)")
    if os.name == "nt" or not path.parent.is_dir():  # Windows has no question whether a process is alive
        return []
    named = ((form.fullmatch(one.name), one) for one in path.parent.iterdir())
    return [one for match, one in named if match and not _is_alive(int(match[1]))]


def _remove_leftovers(path: Path) -> None:
    for left in _leftovers(path):
        _remove(left)


def _is_alive(process: int) -> bool:
    """Return whether a number is that of another process on this machine."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
