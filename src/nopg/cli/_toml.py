"""TOML files that a user writes for a command."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nopg.errors import ArgumentError

_LARGEST = 1 << 20


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        values = tomllib.loads(content.decode()) if len(content) <= _LARGEST else None
    except (OSError, RecursionError, ValueError) as error:  # also what is no UTF-8 and no TOML
        raise ArgumentError(f"{path} cannot be read as TOML ({error})") from None
    if values is None:
        raise ArgumentError(f"{path} has more than {_LARGEST} bytes; it is no file of options")
    return values


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a table with a key that nothing reads; `where` says whose table it is."""
    names = sorted(known)
    if unknown := sorted({*table} - {*names}):
        raise ArgumentError(f"{where} has {unknown[0]!r}, which is not known; there are {', '.join(names)}")
