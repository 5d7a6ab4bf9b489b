"""Gymnasium's spaces, as far as kernels can work in them: vectors of real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.errors import DataError

__all__ = ["bounds_of", "flat", "width"]


def width(space: Any, what: str, keys: Sequence[str] | None = None) -> int:
    """Return the number of columns of a space; one that is not made of boxes is refused with the reason."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        if keys is None:
            raise DataError(f"{what} is a dictionary of {list(space.spaces)}; say which parts with keys=[…]")
        if missing := [key for key in keys if key not in space.spaces]:
            raise DataError(f"{what} has no part {missing[0]!r}; it has {list(space.spaces)}")
        return sum(width(space.spaces[key], f"{what} {key!r}") for key in keys)
    if isinstance(space, spaces.Box) and len(space.shape) <= 1:
        return math.prod(space.shape)
    raise DataError(
        f"{what} is {space}; kernels need vectors of real numbers (a Box with one axis). Discrete and image "
        "spaces cannot be used"
    )


def flat(value: Any, keys: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """Return rows (n, d) of observations or actions, the chosen parts of a dictionary side by side."""
    if isinstance(value, Mapping):
        return np.concatenate([flat(value[key]) for key in keys or ()], axis=1)
    array = np.asarray(value, dtype=np.float64)
    return array.reshape(len(array), -1)


def bounds_of(
    space: Any, names: tuple[str, ...], keys: Sequence[str] | None = None
) -> dict[str, tuple[float, float]]:
    """Return the finite bounds of the columns of a space, by name."""
    boxes = [space.spaces[key] for key in keys or ()] if hasattr(space, "spaces") else [space]
    low = np.concatenate([box.low.reshape(-1) for box in boxes]).tolist()
    high = np.concatenate([box.high.reshape(-1) for box in boxes]).tolist()
    return {
        name: (a, b)
        for name, a, b in zip(names, low, high, strict=True)
        if math.isfinite(a) and math.isfinite(b) and a < b
    }
