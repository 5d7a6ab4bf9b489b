"""One short name for an array, so that a record can say on what data it rests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch

__all__ = ["fingerprint"]


def fingerprint(arrays: Iterable[torch.Tensor | None]) -> str:
    """Return the SHA-256 of arrays in their order: shapes, types and numbers; an absent one counts too.

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
