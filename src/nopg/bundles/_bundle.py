"""A saved controller: one safetensors file with JSON in its header, read as untrusted input.

Arrays are named `GROUP/NAME`. The header holds a JSON document of a group, and a manifest with the format,
the versions that wrote it, and a hash of every group: what was changed or cut is refused. No pickle is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._checks import check_target
from nopg._files import plain_values, write_files
from nopg.bundles._fields import Fields
from nopg.errors import BundleError

FORMAT, KIND, MANIFEST = 3, "nopg controller", "manifest"

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bundle:
    """A saved controller; each group is read, and checked against the manifest, on request.

    Attributes:
        path: The file.
        manifest: Format, versions and hashes.
        header: JSON documents by name.
    """

    path: Path
    manifest: Fields
    header: Mapping[str, str]

    @cached_property
    def sha256(self) -> str:
        """Hash of the file, as `sha256sum` prints it: it identifies one saved controller."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def has(self, group: str) -> bool:
        """Return whether there is a group of this name."""
        return self.manifest.object("sha256").has(group)

    def document(self, group: str) -> Fields:
        """Return the JSON document of a group."""
        text = self.header.get(group, "")
        self._check(group, "document", hashlib.sha256(text.encode()).hexdigest())
        return Fields.parse(text, f"{self.path}: {group}")

    def arrays(self, group: str) -> dict[str, Array]:
        """Return the arrays of a group."""
        from safetensors import safe_open

        try:
            with safe_open(self.path, framework="numpy") as file:
                names = [name for name in file.keys() if name.startswith(f"{group}/")]  # noqa: SIM118  no mapping
                found = {name.removeprefix(f"{group}/"): np.asarray(file.get_tensor(name)) for name in names}
        except Exception as error:  # a hostile header can raise any exception
            raise self._refused(group, f"holds no arrays ({error})") from None
        self._check(group, "arrays", _hash(found))
        return found

    def _check(self, group: str, part: str, found: str) -> None:
        if not self.has(group):
            raise self._refused(group, "is not listed in the manifest")
        if self.manifest.object("sha256").object(group).values.get(part) != found:
            raise self._refused(group, "is not what was saved: it was changed or cut")

    def _refused(self, group: str, why: str) -> BundleError:
        return BundleError(f"{self.path}: {group} {why}; save the controller again, or take another copy")


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Return the saved controller in a file, with its manifest read."""
    from safetensors import safe_open

    file = Path(path)
    if not file.is_file():
        what = "it is not a regular file" if file.exists() else "it does not exist"
        raise BundleError(f"there is no saved controller at {file}: {what}; give a file that save() wrote")
    try:
        with safe_open(file, framework="numpy") as opened:
            header: dict[str, str] = opened.metadata() or {}
    except Exception as error:  # as above
        raise BundleError(
            f"{file} is not a saved controller ({error}); give a file that save() wrote"
        ) from None
    manifest = Fields.parse(header.get(MANIFEST, "{}"), f"{file}: {MANIFEST}")
    if manifest.values.get("kind") != KIND:
        raise BundleError(f"{file} is a safetensors file, but no {KIND}")
    if (found := manifest.integer("format")) != FORMAT:
        advice = "try: pip install --upgrade nopg" if found > FORMAT else "train again"
        raise BundleError(f"{manifest.place}: format {found}, and this nopg reads format {FORMAT}; {advice}")
    return Bundle(file, manifest, header)


def write_bundle(
    path: str | os.PathLike[str],
    *,
    documents: Mapping[str, Mapping[str, Any]],
    arrays: Mapping[str, Mapping[str, Array]],
    about: Mapping[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write JSON documents and arrays by the name of their group to a file that is never incomplete.

    `about` has further fields of the manifest. Return the path.
    """
    from safetensors.numpy import save

    target = check_target(path, overwrite=overwrite)
    header = {name: _json(document) for name, document in documents.items()}
    hashes = {name: {"document": hashlib.sha256(text.encode()).hexdigest()} for name, text in header.items()}
    tensors = dict[str, Array]()
    for group, part in arrays.items():
        tensors |= {f"{group}/{name}": np.asarray(array, order="C") for name, array in part.items()}
        hashes.setdefault(group, {})["arrays"] = _hash(part)
    header[MANIFEST] = _json({"format": FORMAT, "kind": KIND, **about, "sha256": hashes})
    write_files({target: save(tensors, metadata=header)})
    return target


def _hash(arrays: Mapping[str, Array]) -> str:
    """Return the hash of names, types, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(plain_values(document, texts=True), allow_nan=False)
