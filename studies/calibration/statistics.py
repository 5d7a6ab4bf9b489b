"""Shares with exact intervals, the area under a ROC curve, and a score fitted by logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

_Array = npt.NDArray[np.float64]
_RIDGE = 1e-2
_LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class Share:
    """How many of a number of cases.

    Attributes:
        hits: Number of cases that count.
        total: Number of all cases.

    Example:
        >>> share = Share(19, 20)
        >>> share.value, [round(end, 4) for end in share.interval]
        (0.95, [0.7513, 0.9987])
    """

    hits: int
    total: int

    @property
    def value(self) -> float:
        """The share; NaN of nothing."""
        return self.hits / self.total if self.total else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """95 % by Clopper and Pearson."""
        k, n = self.hits, self.total
        low = float(stats.beta.ppf(0.025, k, n - k + 1)) if k else 0.0
        high = float(stats.beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0
        return low, high

    def __str__(self) -> str:
        """The share with its interval, in percent."""
        if not self.total:
            return ""
        low, high = self.interval
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}]"


def area_under_curve(scores: npt.ArrayLike, positive: npt.ArrayLike) -> float:
    """Return the probability that a positive case scores higher than a negative one; ties count half.

    Example:
        >>> area_under_curve([1.0, 2.0, 2.0, 3.0], [False, False, True, True])
        0.875
    """
    values, flags = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    high, low = values[flags], values[~flags]
    if not len(high) or not len(low):
        return float("nan")
    ranks = stats.rankdata(values)[flags].sum()
    return float((ranks - len(high) * (len(high) + 1) / 2) / (len(high) * len(low)))


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A logistic score of warning values: a sum of their logarithms with fitted weights.

    Attributes:
        weights: One for each value, in units of its standard deviation.
        center: Mean of the logarithms.
        scale: Their standard deviation.
    """

    weights: _Array
    center: _Array
    scale: _Array

    @classmethod
    def fit(cls, values: _Array, positive: npt.NDArray[np.bool_]) -> Score:
        """Return the score that separates positive from negative cases.

        Args:
            values: Non-negative warning values, shape (n, k).
            positive: Shape (n,).
        """
        logs = _logs(values)
        center, scale = logs.mean(axis=0), np.maximum(logs.std(axis=0), 1e-9)
        inputs, signs = (logs - center) / scale, np.where(positive, 1.0, -1.0)

        def loss(theta: _Array) -> float:
            margins = signs * (theta[0] + inputs @ theta[1:])
            return float(-special.log_expit(margins).mean() + _RIDGE * (theta[1:] ** 2).sum())

        found = optimize.minimize(loss, np.zeros(inputs.shape[1] + 1))
        return cls(found.x[1:], center, scale)

    def __call__(self, values: _Array) -> _Array:
        """Return the scores (n,) of values (n, k)."""
        return np.asarray((_logs(values) - self.center) / self.scale @ self.weights)


def _logs(values: _Array) -> _Array:
    return np.log(np.maximum(values, _LEAST))
