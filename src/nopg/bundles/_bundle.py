"""A saved controller on disk: a manifest and the members that it lists."""

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
from nopg.errors import BundleError

__all__ = ["FORMAT", "KIND", "MANIFEST", "Array", "Bundle", "open_bundle"]

FORMAT, KIND, MANIFEST = 1, "nopg controller", "manifest.json"
_LARGEST_MANIFEST, _LARGEST_JSON, _LARGEST_TENSORS = 1 << 20, 1 << 26, 1 << 40

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bundle:
    """A saved controller; each member is read, and checked against the manifest, on request.

    Attributes:
        container: The folder or zip.
        manifest: The list of members, and the versions that wrote them.
    """

    container: Container
    manifest: Fields

    @property
    def path(self) -> Path:
        """The path of the folder or zip."""
        return self.container.path

    def has(self, name: str) -> bool:
        """Return whether the manifest lists a member."""
        return self.manifest.object("members").has(name)

    def document(self, name: str) -> Fields:
        """Return a JSON member."""
        return Fields.parse(self._content(name, _LARGEST_JSON), f"{self.path}: {name}")

    def arrays(self, name: str) -> dict[str, Array]:
        """Return a safetensors member."""
        from safetensors.numpy import load

        content = self._content(name, _LARGEST_TENSORS)
        try:
            found: Mapping[str, Array] = load(content)
        except Exception as error:  # a hostile header can raise any exception
            raise self.container.refuse(name, f"holds no arrays ({error})") from None
        return {key: np.asarray(array) for key, array in found.items()}

    def _content(self, name: str, most: int) -> bytes:
        """Return the bytes of a member if size and hash are those of the manifest."""
        if not self.has(name):
            raise self.container.refuse(name, "is not listed in the manifest")
        listed = self.manifest.object("members").object(name)
        size, digest = listed.integer("bytes"), listed.text("sha256")
        content = self.container.read(name, min(size + 1, most))
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            raise self.container.refuse(name, "is not what was saved: it was changed or cut")
        return content


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Return the saved controller in a folder or zip, with its manifest read."""
    container = open_container(Path(path))
    content = container.read(MANIFEST, _LARGEST_MANIFEST)
    manifest = Fields.parse(content, f"{container.path}: {MANIFEST}")
    if manifest.text("kind") != KIND:
        raise BundleError(f"{container.path} holds {manifest.text('kind')!r}, not a {KIND}")
    found = manifest.integer("format", least=1)
    if found > FORMAT:
        raise BundleError(
            f"{manifest.place}: format {found} is newer than this nopg, which reads up to {FORMAT}; "
            "try: pip install --upgrade nopg"
        )
    return Bundle(container, manifest)
