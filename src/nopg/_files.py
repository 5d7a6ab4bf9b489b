"""Files that are whole under their names, whatever kills the process, fills the disk or writes beside it.

Everything is written under a random name beside its target, flushed to the disk, and renamed.
"""

from __future__ import annotations

import glob
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# Seconds after which a temporary file was left by a process that was killed; no write takes as long.
_LEFT_BEHIND = 86_400.0


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together, each atomically and in order.

    All of them are on the disk under temporary names before the first one is renamed.
    """
    unfinished = {path: path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_left_behind(path)
            with unfinished[path].open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        for path in files:
            unfinished[path].replace(path)
            _flush_folder(path.parent)
    finally:
        for name in unfinished.values():
            name.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # Windows has no such thing for folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_left_behind(path: Path) -> None:
    """Remove old temporary files of a target. A number of a process says nothing in another container."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*.unfinished"):
        with suppress(OSError):
            if time.time() - name.stat().st_mtime > _LEFT_BEHIND:
                name.unlink()
