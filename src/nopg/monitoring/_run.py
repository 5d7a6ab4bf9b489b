"""What a run has shown: its rows, where the plant is, what was returned."""

from __future__ import annotations

import math
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
        if self._used > _MOST_KEPT:
            drop = self._used // 2
            self._table, self._used = self._table[drop : self._used].copy(), self._used - drop
            self.dropped += drop
        before, kinds = self._used, [(name, one.dtype, one.shape[1:]) for name, one in columns.items()]
        self._used += len(next(iter(columns.values())))
        if self._used > len(self._table):
            grown = np.empty(2 * self._used, np.dtype(kinds, align=True))
            if before:
                grown[:before] = self._table[:before]
            self._table = grown
        for name, values in columns.items():
            self._table[name][before : self._used] = values


def predicted_region(result: TrainingResult, scorer: Scorer) -> tuple[FloatArray, FloatArray, float]:
    """Return lowest and highest states (d_s,) of predicted paths, ±∞ for angles; their share off the log."""
    paths, schema = result.evaluation.paths, result.policy.schema
    m = paths.returns.shape[1]
    there = paths.going[:, :m] > 0
    s, a = paths.states[:, :m][there], paths.actions[:, :m][there]
    low, high = np.quantile(s.numpy(), _QUANTILES, axis=0)
    margin = _MARGIN * (high - low) + 1e-9
    margin[[name in schema.angles for name in schema.states]] = math.inf
    some = torch.linspace(0, len(s) - 1, min(len(s), _PREDICTED)).long()
    scores = scorer.score((s[some], a[some], torch.zeros(len(some), dtype=torch.float64), s[some]))
    return low - margin, high + margin, float(scores.outside.mean())


def operating_region(
    run: Rows, names: tuple[str, ...], predicted: tuple[FloatArray, FloatArray, float] | None
) -> Facts | None:
    """Return where the plant has been in the last rows; None for too few."""
    if len(run) < _FEWEST:
        return None
    found: Facts = {"outside": float(run["outside"][-RECENT:].mean()), "expected": None, "column": None}
    if predicted is None:
        return found
    states, (low, high, expected) = run["states"][-RECENT:], predicted
    beyond = ((states < low) | (states > high)).mean(axis=0)
    k = int(beyond.argmax())
    column = {
        "column": names[k] if beyond[k] > 0 else None,
        "beyond": float(beyond[k]),
        "median": float(np.median(states[:, k])),
        "predicted": (float(low[k]), float(high[k])),
    }
    return found | {"expected": expected} | column


def region_reasons(region: Facts) -> tuple[list[str], bool]:
    """Return what is unusual about where the plant is, in sentences, and whether it is mostly off the log."""
    reasons, expected = [], region["expected"]
    unexpected = region["outside"] - (expected or 0.0)
    if unexpected > _SOME:
        predicted = "" if expected is None else f" (predicted: {share_of(expected)})"
        reasons.append(
            f"{share_of(region['outside'])} of the last rows are outside the log{predicted}: no such states, "
            "or other actions than those that followed them; there the model neither predicts nor tests"
        )
    if region["column"] is not None and region["beyond"] > _SOME:
        low, high = region["predicted"]
        reasons.append(
            f"{region['column']} is outside its predicted range of {low:.4g} to {high:.4g} in "
            f"{share_of(region['beyond'])} of the last rows (median {region['median']:.4g})"
        )
    return reasons, unexpected > _MOST


def stretches(linked: npt.NDArray[np.bool_], length: int) -> list[tuple[int, int]]:
    """Return begin and end of sequences of rows, cut into stretches of a length."""
    edges = np.unique([0, *np.flatnonzero(~linked), len(linked)]).tolist()
    return [(k, min(k + length, end)) for begin, end in pairwise(edges) for k in range(begin, end, length)]


def check_return(evaluator: OfflineEvaluator, law: Policy, run: Rows, begin: int = 0) -> Facts | None:
    """Return measured and predicted returns of rows from `begin` on; None if they are too few."""
    gamma = evaluator.discount
    length = min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 0, 5), _LONGEST)
    ended, enough = run["terminated"], max(_SHORTEST * length, 5)
    used = [
        (first, end)
        for first, end in stretches(run["linked"], length)
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
    interval = (value - half, value + half)
    return {
        "measured": float(np.mean(measured)),
        "predicted": value,
        "interval": interval,
        "stretches": len(used),
    }


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
