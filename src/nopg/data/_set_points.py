"""Set points: what a stated reward says that outputs should be at, and starts at further ones."""

from __future__ import annotations

import math

import torch

from nopg._derived import DerivedColumns
from nopg._expressions import Expression, column_of
from nopg.data._transitions import Transitions

# Starts of a training where set points are held: enough that a controller is not made for a few of them.
_STARTS = 40


def set_points(data: Transitions, reward: str | None = None) -> dict[str, str | float]:
    """Return what outputs should be at, by name: a column, or a number.

    They are read from differences such as `level - goal` that a reward takes a function of, by default the
    stated one. Of two columns the one that changes more often is the output.

    Example:
        >>> data = Transitions.from_arrays([[0.0, 1.0], [0.5, 1.0]], [1.0, 0.0], [0.0, 0.0],
        ...                                [[0.5, 1.0], [0.6, 1.0]], state_names=["level", "goal"])
        >>> set_points(data.with_reward("-abs(level - goal)"))
        {'level': 'goal'}
    """
    schema, found = data.schema, dict[str, str | float]()
    moves = (data.states != data.next_states).sum(dim=0).tolist()
    changes = dict(zip(schema.states, moves, strict=True))
    reward = schema.reward or reward
    parts = [] if reward is None else Expression(reward, "the reward").affine_parts()
    for constant, factors in parts:
        names = [*map(column_of, factors)]
        if not {*names} <= {*changes}:
            continue
        if len(names) == 1:
            found.setdefault(names[0], -constant / next(iter(factors.values())))
        elif len(names) == 2 and constant == 0.0 and math.isclose(sum(factors.values()), 0.0):
            goal, output = sorted(names, key=changes.__getitem__)
            if changes[goal] < changes[output]:
                found.setdefault(output, goal)
    return found


def with_further_set_points(data: Transitions, reward: str | None = None) -> Transitions | None:
    """Return the data with starts at further set points within the logged range; None where none are held.

    Each logged start is repeated with other values of the columns that hold its set points; what is derived
    from them follows.
    """
    schema = data.schema
    held = {goal for goal in set_points(data, reward).values() if isinstance(goal, str)}
    columns = [k for k, name in enumerate(schema.states) if name in held]
    columns = [k for k in columns if bool((data.states[:, k] == data.next_states[:, k]).all())]
    ranges = [data.states[:, k].aminmax() for k in columns]
    if data.initial_states is not None or not any(bool(high > low) for low, high in ranges):
        return None
    starts = data.starts.unique(dim=0)
    copies = max(-(-_STARTS // len(starts)), 2)
    shares = torch.quasirandom.SobolEngine(len(columns)).draw((copies - 1) * len(starts), dtype=torch.float64)
    varied = starts.repeat(copies - 1, 1)
    before, measured = varied.clone(), len(schema.measured)
    for place, (k, (low, high)) in enumerate(zip(columns, ranges, strict=True)):
        varied[:, k] = low + (high - low) * shares[:, place]
    first = DerivedColumns.of(schema).first
    moved = first(varied[:, :measured].numpy()) - first(before[:, :measured].numpy())
    varied[:, measured:] += torch.as_tensor(moved[:, measured:])
    return data.starting_at(torch.cat([starts, varied]))
