"""Rows in sequence, episodes, and where the task of a dataset starts."""

from __future__ import annotations

from itertools import pairwise

import torch

from nopg.data._transitions import Transitions

_MOVES = {"log": "moves as in the log", "hold": "is held within an episode"}


def contiguous_runs(data: Transitions) -> list[slice]:
    """Return the longest runs of rows each of which continues the one before."""
    cuts = [*(~data.continues).nonzero()[:, 0].tolist(), len(data)]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


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


def start_note(data: Transitions) -> str:
    """Return where the task starts, and what exogenous columns do afterwards, in one sentence.

    Example:
        >>> data = Transitions.from_arrays([[1.0, 4.0], [2.0, 4.0], [5.0, 6.0]], [0.0] * 3, [0.0] * 3,
        ...                                [[2.0, 4.0], [3.0, 4.0], [6.0, 6.0]], episodes=[0, 0, 1],
        ...                                state_names=["level", "goal"], exogenous={"goal": "hold"})
        >>> start_note(data)
        'the task starts in the first rows of 2 episodes; goal is held within an episode'
    """
    moves = [f"{name} {_MOVES[kind]}" for name, kind in data.schema.exogenous.items()]
    count = int(data.begins.sum()) if data.begins is not None else len(data.starts)
    s = "" if count == 1 else "s"
    if data.start_kind == "rows":
        where = "every row is a start: a controller may take over at any time"
    elif data.initial_states is not None:
        where = f"the task starts in {count} declared state{s}"
    elif data.begins is not None:
        where = f"the task starts in {count} row{s} of the log"
    else:
        where = f"the task starts in the first row{s} of {count} episode{s}"
    return "; ".join((where, *moves))
