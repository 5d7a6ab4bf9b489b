"""A saved controller: a manifest and the members that it lists."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.bundles._container import Container, open_container
from nopg.bundles._fields import Fields
from nopg.bundles._migrations import FORMAT, migrated
from nopg.errors import BundleError

__all__ = ["FORMAT", "KIND", "MANIFEST", "Array", "Bundle", "open_bundle"]

KIND, MANIFEST = "nopg controller", "manifest.json"
_LARGEST_MANIFEST, _LARGEST_JSON, _LARGEST_TENSORS = 1 << 20, 1 << 26, 1 << 40

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bundle:
    """A controller on disk; members are read, and checked against the manifest, when they are asked for.

    Attributes:
        container: The folder or zip.
        manifest: What is in it and what made it.
    """

    container: Container
    manifest: Fields

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.container.path

    def has(self, name: str) -> bool:
        """Return whether the manifest lists a member."""
        return self.manifest.object("members").has(name)

    def document(self, name: str) -> Fields:
        """Return a member that is JSON."""
        return Fields.parse(self._content(name, _LARGEST_JSON), f"{self.path}: {name}")

    def arrays(self, name: str) -> dict[str, Array]:
        """Return a member that is safetensors."""
        from safetensors.numpy import load

        content = self._content(name, _LARGEST_TENSORS)
        try:
            found: Mapping[str, Array] = load(content)
        except Exception as error:  # whatever a hostile header makes the library say
            raise self.container.refuse(name, f"holds no arrays ({error})") from None
        return {key: np.asarray(array) for key, array in found.items()}

    def _content(self, name: str, most: int) -> bytes:
        """Return the bytes of a member if they are those that the manifest promises."""
        if not self.has(name):
            raise self.container.refuse(name, "is not listed in the manifest")
        promised = self.manifest.object("members").object(name)
        size, digest = promised.integer("bytes"), promised.text("sha256")
        content = self.container.read(name, min(size + 1, most))
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            raise self.container.refuse(name, "is not what was saved: it was changed or cut")
        return content


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Return the saved controller in a folder or zip, its manifest read and brought to today's format."""
    container = open_container(Path(path))
    content = container.read(MANIFEST, _LARGEST_MANIFEST)
    manifest = Fields.parse(content, f"{container.path}: {MANIFEST}")
    if manifest.text("kind") != KIND:
        raise BundleError(f"{container.path} holds {manifest.text('kind')!r}, not a {KIND}")
    return Bundle(container, migrated(manifest))
