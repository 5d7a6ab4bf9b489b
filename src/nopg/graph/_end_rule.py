"""Where the task ends, as a rule that explains every end in the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.data import Transitions

__all__ = ["EndRule"]


@dataclass(frozen=True, slots=True)
class EndRule:
    """The task ends where a state column lies beyond a threshold.

    Most plants end so: a level too high, a joint at its stop. Where few sides of a box explain all ends in
    the data and no row that went on, the threshold is known to within the gap between the two, in any number
    of dimensions; neighbours would blur it by their spacing.

    Attributes:
        columns: The state column of each side, shape (k,).
        signs: 1 where ends lie above, −1 where they lie below, shape (k,).
        thresholds: Times the sign, for each of several parts of the data, shape (B, k).
    """

    columns: torch.Tensor
    signs: torch.Tensor
    thresholds: torch.Tensor

    @classmethod
    def of(cls, data: Transitions, kept: torch.Tensor | None = None) -> EndRule | None:
        """Return the rule of the data, thresholds from parts (B, n) of them; None where there is none.

        Without any end the rule has no sides. The threshold is half way between the last row that went on and
        the first that ended; where a part has no end on a side, it is where the first of all data lies.
        """
        kept = torch.ones(1, len(data), dtype=torch.bool) if kept is None else kept
        ended = data.terminated
        sides = [(column, sign) for column in range(data.states.shape[1]) for sign in (1.0, -1.0)]
        if not bool(ended.any()):
            sides = []
        if sides and bool(ended.all()):
            return None
        extent = {
            (column, sign): (
                sign * data.next_states[:, column],
                (sign * data.next_states[~ended, column]).max(),
            )
            for column, sign in sides
        }
        chosen, open_ends = [], ended.clone()
        while bool(open_ends.any()):
            side = max(sides, key=lambda side: int((open_ends & (extent[side][0] > extent[side][1])).sum()))
            explained = open_ends & (extent[side][0] > extent[side][1])
            if not bool(explained.any()):
                return None
            chosen.append(side)
            open_ends = open_ends & ~explained

        thresholds = torch.empty(len(kept), len(chosen), dtype=torch.float64)
        for k, side in enumerate(chosen):
            height, last_of_all = extent[side]
            first_of_all = height[ended & (height > last_of_all)].min()
            for b, part in enumerate(kept):
                went_on, over = height[part & ~ended], height[part & ended & (height > last_of_all)]
                last = went_on.max() if len(went_on) else last_of_all
                thresholds[b, k] = (last + (over.min() if len(over) else first_of_all)) / 2
        columns = torch.tensor([column for column, _ in chosen], dtype=torch.int64)
        return cls(columns, torch.tensor([sign for _, sign in chosen], dtype=torch.float64), thresholds)

    def ended(self, states: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        """Return 1 where raw states (m, d_s) are beyond a threshold of their part (m,), else 0."""
        if len(self.columns) == 0:
            return torch.zeros(len(states), dtype=torch.float64)
        beyond = states[:, self.columns] * self.signs > self.thresholds[part]
        return beyond.any(dim=1).double()
