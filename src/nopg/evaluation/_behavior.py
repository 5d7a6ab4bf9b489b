"""The logged behaviour as a policy, and the returns of logged episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.data._held_out import duplicate_groups, spread_rows
from nopg.policies import Deterministic

_NEAREST = 5
# Episodes that leave more of the return's weight unseen are too short.
UNSEEN = 0.05
_FEWEST = 3


class LoggedBehavior(Deterministic):
    """Takes the logged action of one of the five nearest logged states, drawn at each call.

    Copies of a row are one row, of their weight.

    Args:
        data: The log.
        widths: Unit of distance of each state feature, shape (d_f,).
        parts: The same draws are made for so many parts of the states that ask for actions.
        seed: Seed of the draws.
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
    """Discounted returns of logged episodes.

    Attributes:
        mean: Over the episodes.
        standard_error: Of the mean.
        episodes: Number of episodes that terminated or are long enough for the discount.
    """

    mean: float
    standard_error: float
    episodes: int


def episode_returns(
    data: Transitions, discount: float, *, continued: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return first states (k, d_s) and returns (k,) of episodes that terminated or are long enough.

    Args:
        data: The log.
        discount: γ.
        continued: Whether the mean reward of the last fifth continues after a truncation.
    """
    first, returns = [], []
    for rows in episode_rows(data):
        unseen = 0.0 if bool(data.terminated[rows[-1]]) else discount ** len(rows)
        if unseen <= UNSEEN:
            weights = discount ** torch.arange(len(rows), dtype=torch.float64)
            first.append(int(rows[0]))
            rewards = data.rewards[rows]
            tail = unseen / (1 - discount) * rewards[-max(len(rows) // 5, 1) :].mean() if continued else 0.0
            returns.append(float(weights @ rewards + tail))
    return data.states[first], torch.tensor(returns, dtype=torch.float64)


def logged_returns(data: Transitions, discount: float) -> LoggedReturns | None:
    """Return the returns of logged episodes; None where fewer than three are long enough."""
    _, found = episode_returns(data, discount)
    if len(found) < _FEWEST:
        return None
    return LoggedReturns(float(found.mean()), float(found.std() / len(found) ** 0.5), len(found))
