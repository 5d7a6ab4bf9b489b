"""The files of a log, and optional packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path
from typing import Any

from nopg.data.io._cells import listed
from nopg.errors import DataError, MissingExtraError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
_EXTRAS = {
    "pyarrow": "parquet",
    "d3rlpy": "baselines",
}


def extra(module: str) -> Any:
    """Return an optional package or one of its modules; a missing one is named with its extra."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, _EXTRAS.get(package, package)) from error


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that exists and is not empty."""
    file = Path(path)
    if not file.exists():
        raise DataError(f"there is no file {file}; check the path (the working directory is {Path.cwd()})")
    if not file.is_file():
        kind = "a folder" if file.is_dir() else "a pipe or a device"
        raise DataError(f"{file} is {kind}, not a file; give the path of one")
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty; write the rows again")
    return file


def find_files(paths: Paths, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files that a path, a glob, a folder, or several of them name; each exists.

    The files of a glob or folder are in natural order of their names (`log-2` before `log-10`), several
    paths in the order in which they are given. A folder gives its files with one of the suffixes.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise DataError("no file is given; give the path of one, several, a glob or a folder")
    files = [existing_file(file) for path in given for file in _expanded(Path(path), suffixes)]
    known: set[Path] = set()
    for file in files:
        if (place := file.resolve()) in known:
            raise DataError(f"{file} is given twice; name every file once")
        known.add(place)
    return files


def natural_order(path: Path) -> list[tuple[int, int, str]]:
    """Return a sort key in which numbers inside names count as numbers.

    Example:
        >>> [path.name for path in sorted([Path("log-10"), Path("log-9")], key=natural_order)]
        ['log-9', 'log-10']
    """
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def source_name(paths: Paths, files: list[Path]) -> str:
    """Return the name of a log in errors."""
    if len(files) == 1:
        return str(files[0])
    name = str(paths) if isinstance(paths, str | os.PathLike) else f"{files[0]} to {files[-1]}"
    return f"{name} ({len(files)} files, rows counted through)"


def _expanded(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if path.is_dir():
        inside = sorted(path.iterdir(), key=natural_order)
        found = [file for file in inside if file.suffix.lower() in suffixes and file.name[0] not in "._~"]
        if not found:
            holds = listed([file.name for file in inside]) or "nothing"
            raise DataError(f"{path} is a folder without {' or '.join(suffixes)} files; it holds {holds}")
        return found
    if path.exists() or not has_magic(str(path)):
        return [path]
    found = sorted((Path(file) for file in glob(str(path))), key=natural_order)
    if not found:
        raise DataError(f"no file matches {path}; check it (the working directory is {Path.cwd()})")
    return found
