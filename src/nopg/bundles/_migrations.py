"""How a manifest of an older format becomes one of today's; members keep their names and meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from nopg.bundles._fields import Fields
from nopg.errors import BundleError

__all__ = ["FORMAT", "MIGRATIONS", "Migration", "migrated"]

FORMAT = 1
"""The layout that `write_bundle` writes."""

Migration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: Mapping[int, Migration] = MappingProxyType({})
"""By format, the step to the next one. Format 1 is the first."""


def migrated(
    manifest: Fields, *, migrations: Mapping[int, Migration] = MIGRATIONS, newest: int = FORMAT
) -> Fields:
    """Return the manifest in the newest format, step by step."""
    found = manifest.integer("format", least=1)
    if found > newest:
        raise BundleError(
            f"{manifest.place}: format {found} is newer than this nopg, which reads up to {newest}; "
            "try: pip install --upgrade nopg"
        )
    for number in range(found, newest):
        manifest = Fields({**migrations[number](manifest.values), "format": number + 1}, manifest.place)
    return manifest
