"""Files that are whole under their names, whatever kills the process or fills the disk, and what is in them.

Everything is written under a random name beside its target, flushed to the disk, and renamed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nopg._version import __version__

if TYPE_CHECKING:
    import torch


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together, each atomically and in order.

    All of them are on the disk under temporary names before the first one is renamed.
    """
    unfinished = {path: path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
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


def plain_values(value: Any, *, texts: bool = False) -> Any:
    """Return a value for JSON: tuples become lists, keys strings, NaN and infinite numbers None or texts."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner, texts=texts) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(inner, texts=texts) for inner in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return str(value) if texts else None


def json_content(value: Mapping[str, Any]) -> bytes:
    """Return the content of a file of plain values; half a character, which UTF-8 lacks, is escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace")


def nested(**owners: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of all owners in one mapping, such as `model.a` of the owner `model`."""
    return {f"{owner}.{name}": part for owner, parts in owners.items() for name, part in parts.items()}


def part_of(owner: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of one owner under their own names."""
    prefix = f"{owner}."
    return {name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)}


def fingerprint(arrays: Iterable[torch.Tensor | None]) -> str:
    """Return the SHA-256 of arrays in their order: shapes, types and numbers; None counts too."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"absent;")
            continue
        digest.update(f"{array.dtype} {tuple(array.shape)};".encode())
        digest.update(array.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def versions_of(*packages: str) -> dict[str, str]:
    """Return the versions of nopg, Python, torch and other packages, if installed."""
    found = {"nopg": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scipy", *packages):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
