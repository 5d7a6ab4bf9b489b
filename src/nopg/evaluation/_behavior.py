"""The logged behaviour as a policy, and the returns of logged episodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.kernels import GaussianKernel
from nopg.neighbors import neighbor_search
from nopg.policies import Deterministic

__all__ = ["UNSEEN", "LoggedBehavior", "LoggedReturns", "episode_returns", "logged_returns"]

_NEAREST = 5
# Episodes that leave more of the return's weight unseen are too short.
UNSEEN = 0.05
_FEWEST = 3


class LoggedBehavior(Deterministic):
    """Takes the logged action of one of the five nearest logged states, drawn at each call.

    Args:
        data: The log.
        metric: Scales of the state features.
        seed: Seed of the draws.
    """

    def __init__(self, data: Transitions, metric: GaussianKernel, *, seed: int = 0) -> None:
        super().__init__()
        self.data, self._kernel, self.num_actions = data, metric, data.actions.shape[1]
        self._tree = neighbor_search(self._kernel.scale(data.features))
        self._rng = generator(seed, "logged behaviour")

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return actions (m, d_a) at state features (m, d_f)."""
        _, near = self._tree.nearest(self._kernel.scale(features), _NEAREST)
        one = torch.randint(near.shape[1], (len(features), 1), generator=self._rng)
        return self.data.actions[near.long().gather(1, one)[:, 0]]


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
