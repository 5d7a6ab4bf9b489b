"""The states that end a task: thresholds on state columns that explain every end, else the nearest state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.data import Transitions
from nopg.models._regression_rows import InputSpace

_MOST_STATES = 10_000


@dataclass(frozen=True, slots=True)
class TerminationRule:
    """The task ends where a state column lies beyond a threshold.

    Typical ends are a level too high or a joint at its stop. If a few thresholds separate all ends in the
    data from all other rows, they are the rule, each half way between the two. Otherwise the task ends where
    the nearest logged next state was an end.

    Attributes:
        columns: The state column of each threshold, shape (k,).
        signs: 1 if ends lie above, −1 if below, shape (k,).
        thresholds: Thresholds times the sign, shape (k,).
        nearest: A tree of logged next states, and whether each was an end; None if there are thresholds.
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
        chosen = _separating_thresholds(data.next_states, data.terminated)
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
        """Return whether raw states (m, d_s) end the task, shape (m,)."""
        if self.nearest is not None:
            tree, ends = self.nearest
            _, near = tree.query(self.space.embed(states).numpy(), k=1)
            return ends[torch.as_tensor(near)]
        return (states[:, self.columns] * self.signs > self.thresholds).any(dim=1)


def _separating_thresholds(states: Tensor, ended: Tensor) -> list[tuple[int, float, float]] | None:
    """Return (column, sign, threshold) that explain all ends and no other row; None if there are none."""
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
