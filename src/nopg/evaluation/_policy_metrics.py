"""Quality of estimated returns of policies: the metrics of the DOPE benchmark (Fu et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nopg._typing import ArrayLike
from nopg.errors import ArgumentError

__all__ = ["PolicyMetrics", "policy_metrics"]


@dataclass(frozen=True, slots=True)
class PolicyMetrics:
    """Metrics over several policies.

    Attributes:
        absolute_error: The mean of |estimate − truth|, in units of the range of the truths.
        rank_correlation: Spearman's.
        regret: The best truth less that of the best of the k policies estimated highest, in units of the
            range of the truths.
    """

    absolute_error: float
    rank_correlation: float
    regret: float


def policy_metrics(estimates: ArrayLike, truths: ArrayLike, *, k: int = 1) -> PolicyMetrics:
    """Return error, rank correlation and regret of estimated returns of several policies.

    Args:
        estimates: Of every policy, shape (p,).
        truths: Their true returns, shape (p,).
        k: Number of policies that can be tried on the plant; regret@k.

    Example:
        >>> policy_metrics([1.0, 2.0, 2.5], [0.0, 1.0, 4.0])
        PolicyMetrics(absolute_error=0.29..., rank_correlation=1.0, regret=0.0)
    """
    from scipy import stats  # slow to import

    estimated, true = (np.asarray(values, dtype=np.float64) for values in (estimates, truths))
    if estimated.shape != true.shape or estimated.ndim != 1 or len(true) < 2:
        raise ArgumentError(
            f"estimates have shape {estimated.shape} and truths {true.shape}; give one of both for each of "
            "at least two policies"
        )
    spread = float(np.ptp(true)) or 1.0
    constant = np.ptp(estimated) == 0 or np.ptp(true) == 0
    highest = np.argsort(-estimated, kind="stable")[:k]
    return PolicyMetrics(
        float(np.abs(estimated - true).mean()) / spread,
        0.0 if constant else float(stats.spearmanr(estimated, true).statistic),
        float(true.max() - true[highest].max()) / spread,
    )
