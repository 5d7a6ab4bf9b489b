"""The types that appear on the public surface."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg.errors import ArgumentError

ArrayLike = torch.Tensor | npt.NDArray[Any] | Sequence[Any] | float
FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.integer[Any]]
RewardFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Rewards (m,) of raw states (m, d_s), actions (m, d_a) and next states (m, d_s), in torch."""


def as_tensor(array: ArrayLike, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return the array as a detached tensor of the given dtype, sharing memory where it can.

    Masked entries become NaN; what is no array of real numbers is refused.
    """
    if isinstance(array, torch.Tensor):
        return array.detach().to(dtype)
    try:
        values = np.asanyarray(array)
    except ValueError:  # rows of different lengths
        values = np.empty(0, dtype=object)
    if values.dtype.kind not in "fiub":
        raise ArgumentError(f"{str(array)[:60]!r} is not an array of real numbers; give numbers")
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    plain = values.flags.writeable and min(values.strides, default=0) >= 0  # what torch can share
    return torch.as_tensor(values if plain else values.copy()).to(dtype)
