"""What a run has shown: its rows, where the plant is, what was returned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._assessment import INFLATION
from nopg.inspect._wording import share_of
from nopg.models._rollout import rollout
from nopg.monitoring._scores import Scorer
from nopg.policies import Policy
from nopg.training import TrainingResult

_MOST_KEPT = 100_000
# Rows in which the plant is looked for, and the fewest of them that count.
RECENT, _FEWEST = 200, 50
# Share of recent rows beyond the predicted one at which to look, and to act.
_SOME, _MOST = 0.2, 0.5
# Rows of predicted paths that are scored; quantiles of predicted states, a margin as a share of their span.
_PREDICTED, _QUANTILES, _MARGIN = 2_000, (0.005, 0.995), 0.1
# Share of the return's weight after a stretch, its greatest length, and the share of it that suffices.
_TAIL, _LONGEST, _SHORTEST = 0.05, 300, 0.25
_MOST_STRETCHES, _REPEATS = 20, 10
# Standard errors of the interval; it is looked at again and again.
_DEVIATIONS = 3.0


class Rows:
    """Columns of equal length that grow; of more than 100 000 rows the later half is kept.

    Attributes:
        dropped: Number of rows that were dropped.
    """

    def __init__(self) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._used = self.dropped = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._columns[name][: self._used]

    def append(self, **columns: npt.NDArray[Any]) -> None:
        """Add rows."""
        if self._used > _MOST_KEPT:
            drop = self._used // 2
            self._columns = {name: self[name][drop:].copy() for name in self._columns}
            self._used, self.dropped = self._used - drop, self.dropped + drop
        for name, values in columns.items():
            kept, end = self._columns.get(name, values[:0]), self._used + len(values)
            if len(kept) < end:
                room = np.empty_like(values, shape=(2 * end, *values.shape[1:]))
                self._columns[name] = kept = np.concatenate([kept[: self._used], room])
            kept[self._used : end] = values
        self._used = end

    def stretches(self, length: int) -> list[tuple[int, int]]:
        """Return begin and end of sequences of rows, cut into stretches of a length."""
        edges = np.unique([0, *np.flatnonzero(~self["linked"]), self._used]).tolist()
        pairs = pairwise(edges)
        return [(k, min(k + length, end)) for begin, end in pairs for k in range(begin, end, length)]


@dataclass(frozen=True, slots=True)
class OperatingRegion:
    """Where the plant has been in the last 200 rows.

    Attributes:
        outside: Share of rows at which the log does not show what the plant does.
        expected: The same share along the predicted paths; None in shadow, where other paths are taken.
        column: State column that is most often where it was not predicted, or None.
        beyond: Share of rows in which it is.
        median: Its median.
        predicted: Its predicted range.
    """

    outside: float
    expected: float | None = None
    column: str | None = None
    beyond: float = 0.0
    median: float = 0.0
    predicted: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, run: Rows, predicted: PredictedStates | None) -> OperatingRegion | None:
        """Return it for recent rows; None for too few. Without predicted states only the log counts."""
        if len(run) < _FEWEST:
            return None
        outside = float(run["outside"][-RECENT:].mean())
        if predicted is None:
            return cls(outside)
        states, low, high = run["states"][-RECENT:], predicted.low, predicted.high
        beyond = ((states < low) | (states > high)).mean(axis=0)
        k = int(beyond.argmax())
        name = predicted.names[k] if beyond[k] > 0 else None
        ends = (float(low[k]), float(high[k]))
        return cls(outside, predicted.outside, name, float(beyond[k]), float(np.median(states[:, k])), ends)

    @property
    def mostly_outside(self) -> bool:
        """Whether most rows lie outside the log."""
        return self._unexpected > _MOST

    @property
    def _unexpected(self) -> float:
        return self.outside - (self.expected or 0.0)

    def reasons(self) -> list[str]:
        """Return what is unusual, in sentences."""
        found = []
        if self._unexpected > _SOME:
            predicted = "" if self.expected is None else f" (predicted: {share_of(self.expected)})"
            found.append(
                f"{share_of(self.outside)} of the last rows are outside the log{predicted}: no such "
                "states, or other actions than those that followed them; there the model "
                "neither predicts nor tests"
            )
        if self.column is not None and self.beyond > _SOME:
            low, high = self.predicted
            found.append(
                f"{self.column} is outside its predicted range of {low:.4g} to {high:.4g} in "
                f"{share_of(self.beyond)} of the last rows (median {self.median:.4g})"
            )
        return found


@dataclass(frozen=True, slots=True)
class PredictedStates:
    """Where the controller was predicted to go.

    Attributes:
        names: Of the state columns.
        low: Lowest values (d_s,); −∞ for an angle.
        high: Highest values (d_s,); ∞ for an angle.
        outside: Share of the predicted rows outside the log.
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    outside: float

    @classmethod
    def of(cls, result: TrainingResult, scorer: Scorer) -> PredictedStates:
        """Return the range of the predicted paths of a controller."""
        paths, schema = result.evaluation.paths, result.policy.schema
        m = paths.returns.shape[1]
        there = paths.going[:, :m] > 0
        s, a = paths.states[:, :m][there], paths.actions[:, :m][there]
        low, high = np.quantile(s.numpy(), _QUANTILES, axis=0)
        margin = _MARGIN * (high - low) + 1e-9
        margin[[name in schema.angles for name in schema.states]] = math.inf
        some = torch.linspace(0, len(s) - 1, min(len(s), _PREDICTED)).long()
        scores = scorer.score((s[some], a[some], torch.zeros(len(some), dtype=torch.float64), s[some]))
        return cls(schema.states, low - margin, high + margin, float(scores.outside.mean()))


@dataclass(frozen=True, slots=True)
class ReturnCheck:
    """Discounted returns over stretches of a run, each about as long as the horizon of the discount.

    Attributes:
        measured: Mean over the stretches.
        predicted: Mean that the model predicts from the same states over as many steps.
        interval: Three standard errors around the predicted mean, noise of the plant included.
        stretches: Number of stretches, at most the last 20.
    """

    measured: float
    predicted: float
    interval: tuple[float, float]
    stretches: int

    @property
    def below(self) -> bool:
        """Whether the measured return is below the predicted interval."""
        return self.measured < self.interval[0]


def check_return(evaluator: OfflineEvaluator, law: Policy, run: Rows, begin: int = 0) -> ReturnCheck | None:
    """Return measured and predicted returns of rows from `begin` on; None if they are too few."""
    gamma = evaluator.discount
    length = min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 0, 5), _LONGEST)
    ended, enough = run["terminated"], max(_SHORTEST * length, 5)
    used = [
        (first, end)
        for first, end in run.stretches(length)
        if first >= begin and (end - first >= enough or ended[end - 1])
    ][-_MOST_STRETCHES:]
    if not used:
        return None
    measured = [gamma ** np.arange(end - first) @ run["rewards"][first:end] for first, end in used]
    starts = run["states"][[first for first, _ in used]]
    found = _predicted_returns(evaluator, law, starts, np.ptp(used, axis=1))
    value, *halves = found.mean(axis=(1, 2)).tolist()
    apart = math.sqrt(sum((half - value) ** 2 for half in halves) / max(len(halves), 1))
    chance = math.sqrt(float(found[0].var(axis=0).mean()) / len(used))
    half = _DEVIATIONS * max(math.hypot(INFLATION * apart, chance), evaluator.least_error)
    return ReturnCheck(float(np.mean(measured)), value, (value - half, value + half), len(used))


def _predicted_returns(
    evaluator: OfflineEvaluator, law: Policy, starts: FloatArray, lengths: npt.NDArray[Any]
) -> FloatArray:
    """Return Σ γᵗrₜ of a controller from raw states, by part, draw of noise and start, shape (P, n, m)."""
    model, noisy = evaluator.model, evaluator.problem.noisy
    T, P, n, m = int(lengths.max()), model.num_parts, _REPEATS if noisy else 1, len(starts)
    noise = None
    if noisy:
        rng = generator(0, "noise of a watched run")
        draws = torch.randn(T, n * m, 2 * model.num_states, generator=rng, dtype=torch.float64)
        noise = draws.repeat(1, P, 1).numpy()
    begin = torch.as_tensor(starts).repeat(P * n, 1)
    part = np.arange(P).repeat(n * m)
    paths = rollout(model, lambda features, _: law.mode(features), begin, T, part=part, noise=noise)
    gained = evaluator.discount ** np.arange(len(paths))[:, None] * paths.rewards * paths.going[:-1]
    last = np.minimum(np.tile(lengths, P * n), len(paths)) - 1
    total = np.cumsum(gained, axis=0)[last, np.arange(P * n * m)]
    return np.asarray(total.reshape(P, n, m))
