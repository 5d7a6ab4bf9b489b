"""Checks of settings that several packages share."""

from __future__ import annotations

import math
import os
from numbers import Real
from pathlib import Path
from typing import TypeGuard

from nopg.errors import ArgumentError

# Beyond them a square may vanish or overflow, with room for sums.
_SMALLEST, _LARGEST = 1e-140, 1e140


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a setting is a real number, finite or not; text and flags are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def squarable_unit(size: float) -> float:
    """Return a unit in which numbers of a size can be squared: 1, or a power of two near the size."""
    if size == 0.0 or not math.isfinite(size) or _SMALLEST <= size <= _LARGEST:
        return 1.0
    return math.ldexp(1.0, math.frexp(size)[1] - 1)


def check_discount(discount: float) -> float:
    """Return the discount if it lies in [0, 1), else raise."""
    if not (is_number(discount) and 0.0 <= discount < 1.0):  # NaN included
        raise ArgumentError(
            f"discount is {discount!r}; it must lie in [0, 1): at 1 the equation has no unique solution. "
            "Try 0.97, or 0.99 for slower systems"
        )
    return float(discount)


def check_target(path: str | os.PathLike[str], *, overwrite: bool, suffix: str = "") -> Path:
    """Return the path of a file to write; refuse a folder, another suffix and, unless told, an older file."""
    target = Path(path)
    if not target.name or target.is_dir():
        raise ArgumentError(f"{str(target)!r} names no file; give one, such as 'tank{suffix}'")
    if suffix and target.suffix != suffix:
        raise ArgumentError(
            f"the path is {str(target)!r}; give one that ends in {suffix}, such as 'tank{suffix}'"
        )
    if target.exists() and not overwrite:
        raise ArgumentError(f"{target} exists already; give another name, or overwrite=True")
    return target


def require(kept: bool, broken: str) -> None:
    """Raise an `ArgumentError` that says what of a contract is broken, unless it is kept."""
    if not kept:
        raise ArgumentError(f"the contract is broken: {broken}")
