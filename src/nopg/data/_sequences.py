"""Rows of a log in the order in which they were logged."""

from __future__ import annotations

import torch

from nopg.data._transitions import Transitions

__all__ = ["continuing_rows", "spaced_blocks"]


def continuing_rows(data: Transitions) -> torch.Tensor:
    """Return whether each row continues the row before it, shape (n,).

    Example:
        >>> data = Transitions.from_arrays([0.0, 1.0, 5.0], [1.0] * 3, [0.0] * 3, [1.0, 2.0, 6.0])
        >>> continuing_rows(data).tolist()
        [False, True, False]
    """
    found = torch.zeros(len(data), dtype=torch.bool)
    found[1:] = (data.next_states[:-1] == data.states[1:]).all(dim=1)
    if data.episodes is not None:
        found[1:] &= data.episodes[1:] == data.episodes[:-1]
    return found


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
