"""The code and the data that a file was made from."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from nopg._version import __version__


def fingerprint(arrays: Iterable[torch.Tensor | None]) -> str:
    """Return the SHA-256 of arrays in their order: shapes, types and numbers; None counts too.

    Example:
        >>> fingerprint([torch.zeros(3)]) == fingerprint([torch.zeros(3, 1)])
        False
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"absent;")
            continue
        digest.update(f"{array.dtype} {tuple(array.shape)};".encode())
        digest.update(array.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def provenance(packages: Sequence[str] = ()) -> dict[str, object]:
    """Return the commit and the versions: of nopg, Python, torch and other packages, if installed."""
    versions = {"nopg": __version__, "python": platform.python_version(), "torch": torch.__version__}
    for package in ("numpy", "scipy", *packages):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"commit": _commit(), "versions": versions}


@cache
def _commit() -> str | None:
    """Return the commit of this source tree, marked if the tree differs; None if nopg is installed."""
    here = Path(__file__).parent
    try:
        if _git(here, "ls-files", "--error-unmatch", "__init__.py").returncode:
            return None  # the repository around an installation is another one
        head = _git(here, "rev-parse", "HEAD").stdout.strip()
        changed = _git(here, "status", "--porcelain", "--", ".").stdout.strip()
    except OSError:
        return None
    return f"{head}, changed" if changed else head


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
