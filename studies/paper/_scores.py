"""Scores of a training and over seeds: last, best and offline-selected are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.errors import ArgumentError

__all__ = ["Scores", "Summary", "summarize"]

_RESAMPLES = 5_000


@dataclass(frozen=True, slots=True)
class Scores:
    """The returns of the snapshots of one training, and what an offline judge thought of each.

    `last` is what a user gets who has no simulator; `best` is what nobody can choose without one, and what
    the paper reports of its rivals (of itself it reports the last); `selected` is what a user gets who
    keeps snapshots and takes the one the judge likes best.

    Attributes:
        returns: On the true plant, in order of training.
        judged: By the data alone, in the same order.
    """

    returns: tuple[float, ...]
    judged: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.returns or len(self.returns) != len(self.judged):
            raise ArgumentError(
                f"there are {len(self.returns)} returns and {len(self.judged)} judgements; give one each, "
                "at least one"
            )

    @property
    def last(self) -> float:
        """The return of the last snapshot."""
        return self.returns[-1]

    @property
    def best(self) -> float:
        """The highest return of all."""
        return max(self.returns)

    @property
    def selected(self) -> float:
        """The return of the snapshot with the highest judgement; of equal ones the latest."""
        number = max(range(len(self.judged)), key=lambda k: (self.judged[k], k))
        return self.returns[number]


@dataclass(frozen=True, slots=True)
class Summary:
    """A score over seeds.

    Attributes:
        mean: The mean, with its 95 % bootstrap interval `mean_interval`.
        mean_interval: Lower and upper end.
        iqm: The interquartile mean, with its 95 % bootstrap interval `iqm_interval`.
        iqm_interval: Lower and upper end.
        count: How many seeds.
    """

    mean: float
    mean_interval: tuple[float, float]
    iqm: float
    iqm_interval: tuple[float, float]
    count: int


def summarize(scores: Sequence[float], *, seed: int = 0) -> Summary:
    """Return mean and interquartile mean over seeds, each with its percentile bootstrap interval.

    Example:
        >>> summary = summarize([1.0, 2.0, 3.0, 4.0, 100.0])
        >>> summary.mean, summary.iqm
        (22.0, 3.0)
    """
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise ArgumentError(f"scores are {list(scores)}; give finite numbers, at least one")
    draws = torch.randint(len(x), (_RESAMPLES, len(x)), generator=generator(seed, "bootstrap"))
    drawn = x[draws.numpy()]
    ends = (2.5, 97.5)
    mean = np.percentile(drawn.mean(axis=1), ends)
    iqm = np.percentile(_interquartile_mean(drawn), ends)
    return Summary(
        float(x.mean()),
        (float(mean[0]), float(mean[1])),
        float(_interquartile_mean(x[None])[0]),
        (float(iqm[0]), float(iqm[1])),
        len(x),
    )


def _interquartile_mean(x: FloatArray) -> FloatArray:
    """Return the mean of each row without its lowest and its highest quarter, rounded down."""
    quarter = x.shape[1] // 4
    mean: FloatArray = np.sort(x, axis=1)[:, quarter : x.shape[1] - quarter].mean(axis=1)
    return mean
