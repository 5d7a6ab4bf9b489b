"""Groups of rows by their influence on the predicted return."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.data import Transitions
from nopg.inspect._wording import count_of
from nopg.training import TrainingResult

_FEW = 3


@dataclass(frozen=True, slots=True)
class InfluentialPart:
    """Rows that are left out together, with their influence on the predicted return.

    Attributes:
        episodes: Their numbers, if the rows are whole episodes.
        rows: Row numbers, ascending.
        influence: The return predicted from all rows less the return predicted without these.
    """

    episodes: tuple[int, ...]
    rows: tuple[int, ...]
    influence: float

    def where(self) -> str:
        """Return the rows in words."""
        if self.episodes:
            noun = "episode" if len(self.episodes) == 1 else "episodes"
            return f"{noun} {_runs(self.episodes)}"
        first, last = self.rows[0], self.rows[-1]
        if len(self.rows) <= _FEW or last - first + 1 == len(self.rows):
            return f"{'row' if len(self.rows) == 1 else 'rows'} {_runs(self.rows)}"
        return f"{count_of(len(self.rows), 'row')} between {first} and {last}"


def influential_parts(result: TrainingResult) -> tuple[InfluentialPart, ...]:
    """Return the groups of rows of `OfflineEvaluator.influence`, the most influential first."""
    evaluator = result.evaluator
    return tuple(
        InfluentialPart(_episodes(evaluator.data, rows), rows, influence)
        for rows, influence in evaluator.influence(result.policy)
    )


def _episodes(data: Transitions, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of the episodes if the rows are whole episodes, else none."""
    if data.episodes is None:
        return ()
    numbers = torch.unique(data.episodes[list(rows)])
    whole = int(torch.isin(data.episodes, numbers).sum()) == len(rows)
    return tuple(numbers.tolist()) if whole else ()


def _runs(numbers: tuple[int, ...]) -> str:
    """Return ascending numbers in words.

    Example:
        >>> _runs((0, 1, 2, 5, 8, 9))
        '0 to 2, 5, 8, 9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(words)
