"""Returns that were measured, beside those that the model predicts from the same states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray, IntArray
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._assessment import INFLATION
from nopg.models._rollout import rollout
from nopg.monitoring._table import Table
from nopg.policies import Policy

# Share of the return's weight after a stretch, its greatest length, and the share of it that suffices.
_TAIL, _LONGEST, _SHORTEST = 0.05, 300, 0.25
_MOST_STRETCHES, _REPEATS = 20, 10
# Standard errors of the interval; it is looked at again and again.
_DEVIATIONS = 3.0


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


def check_return(evaluator: OfflineEvaluator, law: Policy, run: Table, begin: int = 0) -> ReturnCheck | None:
    """Return measured and predicted returns of rows from `begin` on; None if they are too few."""
    gamma = evaluator.discount
    length = min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 0, 5), _LONGEST)
    ended, enough = run["terminated"], max(_SHORTEST * length, 5)
    used = [
        (first, end)
        for first, end in run.stretches(length).tolist()
        if first >= begin and (end - first >= enough or ended[end - 1])
    ][-_MOST_STRETCHES:]
    if not used:
        return None
    rewards = run["rewards"]
    measured = [gamma ** np.arange(end - first) @ rewards[first:end] for first, end in used]
    first, end = np.array(used).T
    found = _predicted(evaluator, law, run["states"][first], end - first)
    value, *halves = found.mean(axis=(1, 2)).tolist()
    apart = math.sqrt(sum((half - value) ** 2 for half in halves) / max(len(halves), 1))
    chance = math.sqrt(float(found[0].var(axis=0).mean()) / len(used))
    half = _DEVIATIONS * max(math.hypot(INFLATION * apart, chance), evaluator.least_error)
    return ReturnCheck(float(np.mean(measured)), value, (value - half, value + half), len(used))


def _predicted(evaluator: OfflineEvaluator, law: Policy, starts: FloatArray, lengths: IntArray) -> FloatArray:
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
