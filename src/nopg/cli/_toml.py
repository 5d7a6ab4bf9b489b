"""TOML files that a user writes for a command."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nopg.errors import ArgumentError

__all__ = ["check_keys", "read_toml"]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read as TOML ({error})") from None


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a table with a key that nothing reads; `where` says whose table it is."""
    names = sorted(known)
    if unknown := sorted({*table} - {*names}):
        raise ArgumentError(f"{where} has {unknown[0]!r}, which is not known; there are {', '.join(names)}")
