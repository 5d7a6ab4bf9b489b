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
from nopg.bundles._keys import SIGNATURE_BYTES, KeyFile, is_signature
from nopg.errors import BundleError, SignatureError

FORMAT, KIND, MANIFEST, SIGNATURE = 2, "nopg controller", "manifest.json", "manifest.sig"
_DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
_LARGEST_MANIFEST, _LARGEST_JSON, _LARGEST_TENSORS = 1 << 20, 1 << 26, 1 << 40

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bundle:
    """A saved controller; each member is read, and checked against the manifest, on request.

    Attributes:
        container: The folder or zip.
        manifest: The list of members, and the versions that wrote them.
        content: The manifest as it was written.
    """

    container: Container
    manifest: Fields
    content: bytes

    @property
    def path(self) -> Path:
        """The path of the folder or zip."""
        return self.container.path

    @property
    def sha256(self) -> str:
        """Hash of the manifest, which has the hashes of all members: it identifies one saved controller."""
        return hashlib.sha256(self.content).hexdigest()

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
        if strange := [key for key, array in found.items() if array.dtype.name not in _DTYPES]:
            raise self.container.refuse(name, f"holds {strange[0]} as {found[strange[0]].dtype}")
        return {key: np.asarray(array) for key, array in found.items()}

    def members(self) -> dict[str, bytes]:
        """Return all members in the order of the manifest, each as it was saved; refuse files beside them."""
        listed = self.manifest.object("members").names
        if others := [one for one in self.container.names() if one not in {MANIFEST, SIGNATURE, *listed}]:
            raise self.container.refuse(others[0], "is not listed in the manifest")
        return {name: self._content(name, _LARGEST_TENSORS) for name in listed}

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


def open_bundle(path: str | os.PathLike[str], *, key: KeyFile | None = None) -> Bundle:
    """Return the saved controller in a folder or zip, with its manifest read.

    Args:
        path: The folder or zip.
        key: File of a public key. If given, a bundle is refused with `SignatureError` unless `sign_bundle`
            signed it with the private key of the same pair, and if any of its files has changed since.
    """
    container = open_container(Path(path))
    content = container.read(MANIFEST, _LARGEST_MANIFEST)
    if key is not None:
        _check_signature(container, content, key)
    manifest = Fields.parse(content, f"{container.path}: {MANIFEST}")
    if manifest.text("kind") != KIND:
        raise BundleError(f"{container.path} holds {manifest.text('kind')!r}, not a {KIND}")
    found = manifest.integer("format", least=1)
    if found > FORMAT:
        raise BundleError(
            f"{manifest.place}: format {found} is newer than this nopg, which reads up to {FORMAT}; "
            "try: pip install --upgrade nopg"
        )
    bundle = Bundle(container, manifest, content)
    if key is not None:
        _check_members(bundle)
    return bundle


def _check_signature(container: Container, manifest: bytes, key: KeyFile) -> None:
    if SIGNATURE not in container.names():
        raise SignatureError(f"{container.path} is not signed; sign it with `nopg sign`, or give no key")
    signature = container.read(SIGNATURE, SIGNATURE_BYTES + 1)
    if len(signature) != SIGNATURE_BYTES or not is_signature(signature, manifest, key):
        raise SignatureError(
            f"{container.path}: the signature does not fit the manifest under {os.fspath(key)}; the bundle "
            "was changed after it was signed, or signed with another key"
        )


def _check_members(bundle: Bundle) -> None:
    """Refuse a signed bundle of which any byte has changed."""
    container = bundle.container
    try:
        members = bundle.members()
        signature = container.read(SIGNATURE, SIGNATURE_BYTES)
    except BundleError as error:
        raise SignatureError(f"{container.path} was changed after it was signed: {error}") from None
    if not container.is_as_written({MANIFEST: bundle.content, **members, SIGNATURE: signature}):
        raise SignatureError(
            f"{container.path} was signed, but another program packed or changed the zip; sign it again"
        )
