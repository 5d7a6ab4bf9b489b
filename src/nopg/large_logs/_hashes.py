"""Numbers that depend on the values of a row alone, to draw rows and form groups in any order."""

from __future__ import annotations

import numpy as np
import torch

from nopg.data._transitions import Transitions


def row_hashes(values: torch.Tensor) -> torch.Tensor:
    """Return 62 bits for every row of values (n, c), evenly spread; equal rows have equal ones.

    Example:
        >>> same, other, again = row_hashes(torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
        >>> bool(same == again), bool(same == other)
        (True, False)
    """
    bits = (values.double().numpy() + 0.0).view(np.uint64)  # 0 and −0 are equal
    found = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        found = _mixed(found ^ column)
    return torch.as_tensor((found >> np.uint64(2)).astype(np.int64))


def hashed_groups(data: Transitions, count: int) -> torch.Tensor:
    """Return one of `count` groups for each row: whole episodes, or single rows where there are none."""
    owners = data.states if data.episodes is None else data.episodes[:, None]
    return row_hashes(owners) % count


def _mixed(bits: np.typing.NDArray[np.uint64]) -> np.typing.NDArray[np.uint64]:
    """Return well-mixed bits (the finaliser of SplitMix64; Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
