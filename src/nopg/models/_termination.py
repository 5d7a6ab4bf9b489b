"""Where the task ends: thresholds on state columns that explain every end, else the nearest state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.data import Transitions
from nopg.models._regression_rows import InputSpace

__all__ = ["TerminationRule"]

_MOST_STATES = 10_000


@dataclass(frozen=True, slots=True)
class TerminationRule:
    """The task ends where a state column lies beyond a threshold.

    Most plants end so: a level too high, a joint at its stop. Where a few thresholds separate all ends in
    the data from all rows that went on, they are the rule, each half way between the two. Where they do not,
    the task ends where the nearest logged next state was an end.

    Attributes:
        columns: The state column of each threshold, shape (k,).
        signs: 1 where ends lie above, −1 where they lie below, shape (k,).
        thresholds: Times the sign, shape (k,).
        nearest: A search among logged next states, and whether each was an end; None where thresholds do.
        space: Units and angles of the states.
    """

    columns: Tensor
    signs: Tensor
    thresholds: Tensor
    nearest: tuple[cKDTree, Tensor] | None
    space: InputSpace

    @classmethod
    def of(cls, data: Transitions, space: InputSpace) -> TerminationRule:
        """Return the rule of a log."""
        chosen = _separating(data.next_states, data.terminated)
        if chosen is None:
            ends = data.terminated.nonzero()[:, 0]
            others = (~data.terminated).nonzero()[:, 0]
            rows = torch.cat([part[:: -(-len(part) // _MOST_STATES) or 1] for part in (ends, others)])
            points = space.embed(data.next_states[rows])
            nearest, chosen = (cKDTree(points.numpy()), data.terminated[rows]), []
        else:
            nearest = None
        columns, signs, thresholds = zip(*chosen, strict=True) if chosen else ((), (), ())
        return cls(
            torch.tensor(columns, dtype=torch.int64),
            torch.tensor(signs, dtype=torch.float64),
            torch.tensor(thresholds, dtype=torch.float64),
            nearest,
            space,
        )

    @property
    def never(self) -> bool:
        """Whether no state ends the task."""
        return len(self.columns) == 0 and self.nearest is None

    def ended(self, states: Tensor) -> Tensor:
        """Return which raw states (m, d_s) end the task, shape (m,)."""
        if self.nearest is not None:
            tree, ends = self.nearest
            _, near = tree.query(self.space.embed(states).numpy(), k=1)
            return ends[torch.as_tensor(near)]
        return (states[:, self.columns] * self.signs > self.thresholds).any(dim=1)


def _separating(states: Tensor, ended: Tensor) -> list[tuple[int, float, float]] | None:
    """Return (column, sign, threshold) that explain all ends and no other row; None where none do."""
    if not bool(ended.any()):
        return []
    if bool(ended.all()):
        return None
    sides = [(column, sign) for column in range(states.shape[1]) for sign in (1.0, -1.0)]
    height = {side: side[1] * states[:, side[0]] for side in sides}
    last = {side: height[side][~ended].max() for side in sides}
    chosen, left = [], ended.clone()
    while bool(left.any()):
        side = max(sides, key=lambda side: int((left & (height[side] > last[side])).sum()))
        beyond = left & (height[side] > last[side])
        if not bool(beyond.any()):
            return None
        first = height[side][ended & (height[side] > last[side])].min()
        chosen.append((*side, float((last[side] + first) / 2)))
        left &= ~beyond
    return chosen
