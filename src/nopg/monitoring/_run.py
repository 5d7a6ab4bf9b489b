"""What a run has shown: its rows, where the plant is, what was returned."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import FloatArray
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._assessment import INFLATION
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._paths import rollouts
from nopg.monitoring._scores import Scorer
from nopg.training import TrainingResult

_MOST_KEPT = 100_000
# Rows of predicted paths that are scored.
_PREDICTED = 2_000
# Share of the return's weight after a stretch, its greatest length, and the share of it that suffices.
_TAIL, _LONGEST, _SHORTEST = 0.05, 300, 0.25
_MOST_STRETCHES, _REPEATS = 20, 10
# Standard errors of the interval; it is looked at again and again.
_DEVIATIONS = 3.0

Facts = dict[str, Any]
"""Numbers by name; see `Status`."""


class Rows:
    """A table that grows; of more than 100 000 rows the later half is kept, `dropped` counts the others."""

    def __init__(self) -> None:
        self._table: npt.NDArray[Any] = np.empty(0)
        self._used = self.dropped = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._table[name][: self._used]

    def append(self, **columns: npt.NDArray[Any]) -> None:
        """Add rows."""
        count = len(next(iter(columns.values())))
        if not len(self._table):  # memory of rows that are not used costs nothing
            kinds = [(name, one.dtype, one.shape[1:]) for name, one in columns.items()]
            self._table = np.empty(_MOST_KEPT, np.dtype(kinds, align=True))
        if (drop := self._used // 2) and self._used + count > _MOST_KEPT:
            self._table[: self._used - drop] = self._table[drop : self._used]
            self._used, self.dropped = self._used - drop, self.dropped + drop
        for name, values in columns.items():
            self._table[name][self._used : self._used + count] = values
        self._used += count


def predicted_outside(result: TrainingResult, scorer: Scorer) -> float:
    """Return the share of predicted paths that is outside the log."""
    paths = result.evaluation.paths
    there = paths.going[:, : paths.returns.shape[1]] > 0
    s, a = (part[:, : there.shape[1]][there] for part in (paths.states, paths.actions))
    some = torch.linspace(0, len(s) - 1, min(len(s), _PREDICTED)).long()
    rows = (s[some], a[some], torch.zeros(len(some), dtype=torch.float64), s[some])
    return float(scorer.score(rows).outside.mean())


def check_return(evaluator: OfflineEvaluator, law: PolicyLaw, run: Rows, begin: int = 0) -> Facts | None:
    """Return measured and predicted returns of rows from `begin` on; None if they are too few."""
    gamma = evaluator.discount
    length = min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 0, 5), _LONGEST)
    ended, enough = run["terminated"], max(_SHORTEST * length, 5)
    edges = np.unique([0, *np.flatnonzero(~run["linked"]), len(run)]).tolist()
    used = [
        (first, min(first + length, last))
        for start, last in pairwise(edges)
        for first in range(start, last, length)
        if first >= begin and (last - first >= enough or ended[last - 1])
    ][-_MOST_STRETCHES:]
    if not used:
        return None
    measured = [gamma ** np.arange(end - first) @ run["rewards"][first:end] for first, end in used]
    starts = run["states"][[first for first, _ in used]]
    returns = _predicted_returns(evaluator, law, starts, np.ptp(used, axis=1))
    value, *halves = returns.mean(axis=(1, 2)).tolist()
    apart = math.sqrt(sum((half - value) ** 2 for half in halves) / max(len(halves), 1))
    chance = math.sqrt(float(returns[0].var(axis=0).mean()) / len(used))
    half = _DEVIATIONS * max(math.hypot(INFLATION * apart, chance), evaluator.least_error)
    ends = (value - half, value + half)
    found = {"measured": float(np.mean(measured)), "predicted": value, "interval": ends}
    return {**found, "stretches": len(used)}


def _predicted_returns(
    evaluator: OfflineEvaluator, law: PolicyLaw, starts: FloatArray, lengths: npt.NDArray[Any]
) -> FloatArray:
    """Return Σ γᵗrₜ of a controller from raw states, by part, draw of noise and start, shape (P, n, m)."""
    problem, P = evaluator.problem, evaluator.model.num_parts
    repeated = torch.as_tensor(starts).repeat(_REPEATS if problem.noisy else 1, 1)
    paths = rollouts(problem, law, repeated, int(lengths.max()), num_parts=P)
    gained = evaluator.discount ** np.arange(len(paths))[:, None] * paths.rewards * paths.going[:-1]
    lengths = np.resize(lengths, gained.shape[1])
    total = np.cumsum(gained, axis=0)[np.minimum(lengths, len(paths)) - 1, np.arange(len(lengths))]
    return np.asarray(total.reshape(P, -1, len(starts)))
