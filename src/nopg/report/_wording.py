"""Numbers, probabilities and verdicts as one reads them."""

from __future__ import annotations

from nopg.evaluation import Difference, OfflineEvaluation
from nopg.inspect._wording import chance

__all__ = ["interval", "number", "sentence"]

# Odds at which a 95 % interval of the gain leaves out 0.
_SURE = 0.975


def number(value: float, digits: int = 4) -> str:
    """Return a number of few digits with a true minus.

    Example:
        >>> number(-12.3456), number(float("inf")), number(0.5, 2)
        ('−12.35', '∞', '0.5')
    """
    return f"{value:.{digits}g}".replace("-", "−").replace("inf", "∞")


def interval(ends: tuple[float, float], digits: int = 4) -> str:
    """Return an interval."""
    return f"[{number(ends[0], digits)}, {number(ends[1], digits)}]"


def sentence(policy: OfflineEvaluation, logged: OfflineEvaluation, gain: Difference) -> str:
    """Return the verdict on a policy with its three numbers."""
    return (
        f"{_opening(policy, gain)}: it is predicted to earn {number(policy.expected_return)} "
        f"(95 % interval {interval(policy.interval)}) against {number(logged.expected_return)} of the logged "
        f"behaviour, is better with a probability of {chance(gain.probability_better)}, and "
        f"{chance(policy.unknown_mass)} of its return's weight lies outside the data."
    )


def _opening(policy: OfflineEvaluation, gain: Difference) -> str:
    if policy.verdict == "not identifiable":
        return "The data cannot tell what this policy will earn"
    if gain.probability_better > _SURE:
        found = "better than what was logged"
    elif gain.probability_better < 1 - _SURE:
        found = "worse than what was logged"
    else:
        found = "not significantly different from what was logged"
    if policy.verdict == "weak":
        return f"On data that support it only weakly, this policy is {found}"
    return f"By the data this policy is {found}"
