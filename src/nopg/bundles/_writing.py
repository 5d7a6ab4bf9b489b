"""Atomic writing of bundles."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nopg._files import flush, flush_folder, write_new, write_whole
from nopg.bundles._bundle import FORMAT, KIND, MANIFEST, Array
from nopg.bundles._container import write_zip
from nopg.errors import ArgumentError


def write_bundle(
    path: str | os.PathLike[str],
    *,
    documents: Mapping[str, Mapping[str, Any]],
    arrays: Mapping[str, Mapping[str, Array]],
    about: Mapping[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write a controller to a folder, or to one file if the path ends in `.zip`; return the path.

    It is written under a temporary name, flushed to the disk, and renamed, so that it is never incomplete.

    Args:
        path: Must not exist, unless it may be overwritten.
        documents: JSON members by name.
        arrays: Safetensors members by name.
        about: Further fields of the manifest.
        overwrite: Whether an existing bundle is replaced.
    """
    from safetensors.numpy import save

    target = Path(path)
    _check_target(target, overwrite)
    members = {name: _json(document) for name, document in documents.items()}
    for name, group in arrays.items():
        members[name] = save({key: np.asarray(array, order="C") for key, array in group.items()})
    listed = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in members.items()
    }
    manifest = {"format": FORMAT, "kind": KIND, **about, "members": listed}
    write_members(target, {MANIFEST: _json(manifest), **members})
    return target


def write_members(target: Path, members: Mapping[str, bytes]) -> None:
    """Write the members of a bundle to a folder or zip, and replace the one that is there."""
    packed = target.is_file() or (target.suffix == ".zip" and not target.is_dir())
    write = _write_zip if packed else _write_folder
    write_whole(target, lambda unfinished: write(unfinished, members))


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.name:
        raise ArgumentError(f"{str(target)!r} names no folder; give one, such as 'pump-controller'")
    if not target.exists():
        return
    if not overwrite:
        raise ArgumentError(f"{target} exists already; give another name, or overwrite=True")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).exists():
        raise ArgumentError(f"{target} is a folder of something else; give another name")


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    """Return plain JSON values; a number that is not finite becomes text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_folder(folder: Path, members: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in members.items():
        write_new(folder / name, content)
    flush_folder(folder)


def _write_zip(path: Path, members: Mapping[str, bytes]) -> None:
    with path.open("wb") as stream:
        write_zip(stream, members)
        flush(stream)
