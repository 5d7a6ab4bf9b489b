"""The logged behaviour as a policy, and the returns of logged episodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.data._episodes import contiguous_runs, episode_rows
from nopg.data._held_out import duplicate_groups, spread_rows
from nopg.data._start_set import StartSet
from nopg.policies import Deterministic

_NEAREST = 5
# Episodes that leave more of the return's weight unseen are too short.
_UNSEEN = 0.05
_FEWEST = 3


class LoggedBehavior(Deterministic):
    """Takes the logged action of one of the five nearest logged states, drawn at each call.

    Copies of a row are one row, of their weight. Distances are in `widths` (d_f,) of the state features. The
    same draws are made for so many parts of the states that ask for actions.
    """

    draws = True

    def __init__(self, data: Transitions, widths: torch.Tensor, *, parts: int = 1, seed: int = 0) -> None:
        super().__init__()
        self._parts = parts
        self._widths, self.num_actions = widths, data.actions.shape[1]
        copies, order = duplicate_groups(data), spread_rows(data, len(data), purpose="logged behaviour")
        first = np.unique(copies[order].numpy(), return_index=True)[1]
        rows = order[torch.as_tensor(np.sort(first))]
        few, weights = data.take(rows), torch.bincount(copies, data.weights).double()
        self._actions, self._weights = few.actions, weights[copies[rows]]
        self._tree = cKDTree((few.features / widths).numpy())
        self._rng = generator(seed, "logged behaviour")

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return actions (m, d_a) at state features (m, d_f)."""
        places = (features / self._widths).numpy()
        _, found = self._tree.query(places, k=min(_NEAREST, self._tree.n))
        near = torch.as_tensor(found).reshape(len(features), -1)
        passed = self._weights[near].cumsum(dim=1)
        draw = torch.rand(-(-len(features) // self._parts), 1, generator=self._rng, dtype=torch.float64)
        draw = draw.repeat(self._parts, 1)[: len(features)]
        one = torch.searchsorted(passed, draw * passed[:, -1:], right=True).clamp(max=near.shape[1] - 1)
        return self._actions[near.gather(1, one)[:, 0]]


@dataclass(frozen=True, slots=True)
class LoggedReturns:
    """Mean return of logged episodes that terminated or are long enough, with its standard error."""

    mean: float
    standard_error: float
    episodes: int


def logged_returns(data: Transitions, discount: float) -> LoggedReturns | None:
    """Return the returns of logged episodes; None where fewer than three are long enough."""
    rows = torch.tensor([int(rows[0]) for rows in episode_rows(data)], dtype=torch.long)
    found = returns_from(data, discount, rows, continued=False)
    found = found[found.isfinite()]
    if len(found) < _FEWEST:
        return None
    return LoggedReturns(float(found.mean()), float(found.std() / len(found) ** 0.5), len(found))


def returns_from(
    data: Transitions, discount: float, rows: torch.Tensor, *, continued: bool = True
) -> torch.Tensor:
    """Return the discounted sums of logged rewards from rows (k,) on, NaN where too few rows follow.

    With `continued` the mean reward of the last fifth continues after a truncation.
    """
    if data.episodes is None or len(rows) == 0:
        return torch.full((len(rows),), math.nan, dtype=torch.float64)
    rewards, at = data.rewards.numpy().astype(np.float64), rows.numpy()
    ends, every = np.array([run.stop for run in contiguous_runs(data)]), np.arange(len(rewards))
    last = ends[np.searchsorted(ends, every, side="right")]  # row after the last one of the same run
    sums, span = rewards.copy(), 1
    # Σ γᵏ rₜ₊ₖ by sums over 1, 2, 4, … rows.
    while bool((inside := every + span < last).any()) and discount**span > np.finfo(float).eps ** 2:
        sums[inside] += discount**span * sums[every[inside] + span]
        span *= 2
    end, found = last[at], sums[at]
    unseen = np.where(data.terminated.numpy()[end - 1], 0.0, discount ** (end - at))
    if continued:
        total, count = np.append(0.0, rewards.cumsum()), np.maximum((end - at) // 5, 1)
        found = found + unseen / (1.0 - discount) * (total[end] - total[end - count]) / count
    return torch.as_tensor(np.where(unseen <= _UNSEEN, found, math.nan))


def measured_returns(data: Transitions, discount: float, starts: StartSet) -> torch.Tensor | None:
    """Return what was logged from each start (k,), NaN where too few rows follow; None where all are so."""
    rows = data.start_rows
    if rows is None:
        return None
    found = returns_from(data, discount, rows)
    place = starts.places(data.states[rows])
    kept = found.isfinite() & (place >= 0)
    if not bool(kept.any()):
        return None
    weights = torch.ones(len(rows), dtype=torch.float64) if data.weights is None else data.weights[rows]
    number, total = (
        torch.bincount(place[kept], each[kept], minlength=len(starts)) for each in (weights, weights * found)
    )
    return total / number  # 0/0 where nothing was measured
