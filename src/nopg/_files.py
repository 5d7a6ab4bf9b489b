"""Files that are whole under their names, whatever kills the process or fills the disk.

Everything is written under a temporary name beside its target, flushed to the disk, and renamed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together, each atomically and in order.

    All of them are on the disk under temporary names before the first one is renamed.
    """
    unfinished = {path: _temporary(path) for path in files}
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


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.unfinished")


def _leftovers(path: Path) -> list[Path]:
    """Return temporary paths of a target that processes have left behind.

    A process of the same number as this one has ended: nothing is left of what this one has written.
    """
    form = re.compile(re.escape(f".{path.name}.") + r"(\d+)\.unfinished")
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
