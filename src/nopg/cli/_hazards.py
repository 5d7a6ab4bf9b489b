"""The file of hazards of `nopg report --assurance`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nopg.cli._toml import check_keys, read_toml
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.report import Hazard


def read_hazards(path: Path) -> tuple[list[Hazard], str | None]:
    """Return the hazards of a TOML file, and which controller is the fallback."""
    content = read_toml(path)
    check_keys(content, ("fallback", "hazard"), str(path))
    fallback, tables = content.get("fallback"), content.get("hazard", [])
    if not isinstance(fallback, str | None):
        raise ArgumentError(f"{path}: fallback is {fallback!r}; say in words which controller it is")
    if not tables or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ArgumentError(
            f"{path} has no hazards; write [[hazard]], and below it name, region and max_probability"
        )
    return [_hazard(one, path) for one in tables], fallback


def _hazard(table: dict[str, Any], path: Path) -> Hazard:
    from nopg.report import Hazard

    check_keys(table, (field.name for field in fields(Hazard)), f"a hazard in {path}")
    if missing := [key for key in ("name", "region") if key not in table]:
        raise ArgumentError(f"a hazard in {path} has no {missing[0]}")
    try:
        return Hazard(**table)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None
