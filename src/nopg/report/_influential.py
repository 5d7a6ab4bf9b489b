"""The parts of the log on which the answer of the paper's equation rests most."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.data import Transitions, held_out_groups
from nopg.evaluation import EquationAnswer

__all__ = ["InfluentialPart", "influential_parts"]

_COUNT = 20
_FEW = 3


@dataclass(frozen=True, slots=True)
class InfluentialPart:
    """Rows that belong together, and what the predicted return owes to them.

    Attributes:
        kind: `episode`, `tenth` of a single one, or `row` with its copies.
        number: Of the episode or tenth; of the first row.
        rows: Their numbers.
        influence: By how much Ĵ changes per unit of the logarithm of how often they count: a hundredth of it
            if they count 1 % more.
    """

    kind: str
    number: int
    rows: tuple[int, ...]
    influence: float

    def where(self) -> str:
        """Return the rows in words."""
        first, last = self.rows[0], self.rows[-1]
        if len(self.rows) <= _FEW:
            return ", ".join(map(str, self.rows))
        if last - first + 1 == len(self.rows):
            return f"{first} to {last}"
        return f"{len(self.rows)} rows from {first} to {last}"


def influential_parts(answer: EquationAnswer, data: Transitions) -> tuple[InfluentialPart, ...]:
    """Return at most twenty parts, the most influential first."""
    numbers = torch.unique(held_out_groups(data))
    kind = _kind(data)
    found = []
    for group, influence in answer.influential_groups(_COUNT):
        rows = tuple((answer.groups == group).nonzero()[:, 0].tolist())
        number = rows[0] if kind == "row" else int(numbers[group])
        found.append(InfluentialPart(kind, number, rows, influence))
    return tuple(found)


def _kind(data: Transitions) -> str:
    if data.episodes is None:
        return "row"
    return "episode" if len(torch.unique(data.episodes)) > 1 else "tenth"
