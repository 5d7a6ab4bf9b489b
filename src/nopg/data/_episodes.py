"""Rows in sequence and episodes of a dataset."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from nopg.data._transitions import Transitions


def contiguous_runs(data: Transitions) -> list[slice]:
    """Return the longest runs of rows in which every next state is, to the bit, the state of the next row.

    A run never crosses an end or an episode; a row without an episode is a run of its own.

    Example:
        >>> data = Transitions.from_arrays([0.0, 1.0, 5.0], [0.0] * 3, [0.0] * 3, [1.0, 2.0, 6.0],
        ...                                episodes=[0, 0, 0])
        >>> contiguous_runs(data)
        [slice(0, 2, None), slice(2, 3, None)]
    """
    rows = len(data)
    continues = np.zeros(rows - 1, dtype=np.bool_)
    if data.episodes is not None:
        same_bits = (_bits(data.next_states.numpy()[:-1]) == _bits(data.states.numpy()[1:])).all(axis=1)
        continues = data.continues.numpy()[1:] & same_bits
    cuts = [0, *(np.flatnonzero(~continues) + 1).tolist(), rows]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def _bits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bit patterns, so that 0 and −0 differ."""
    return np.ascontiguousarray(values).view(np.int64)


def episode_rows(data: Transitions) -> tuple[torch.Tensor, ...]:
    """Return the rows of every episode in their order, by ascending episode number; () without episodes.

    Example:
        >>> data = Transitions.from_arrays([0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3, episodes=[7, 2, 7])
        >>> [rows.tolist() for rows in episode_rows(data)]
        [[1], [0, 2]]
    """
    if data.episodes is None:
        return ()
    _, lengths = torch.unique(data.episodes, return_counts=True)
    rows: tuple[torch.Tensor, ...] = data.episodes.argsort(stable=True).split(lengths.tolist())
    return rows


def spaced_blocks(count: int, most: int, length: int = 100) -> torch.Tensor:
    """Return all rows up to `most` of them, else blocks of successive rows, evenly spaced.

    Example:
        >>> spaced_blocks(10, most=4, length=2).tolist()
        [0, 1, 8, 9]
    """
    if count <= most:
        return torch.arange(count)
    number = most // length
    first = torch.arange(number) * (count - length) // max(number - 1, 1)
    return (first[:, None] + torch.arange(length)).reshape(-1)
