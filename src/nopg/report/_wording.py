"""The words of a report: numbers, the verdict, the limits."""

from __future__ import annotations

from nopg.evaluation import Assessment, Gain
from nopg.inspect._wording import chance

# Probability at which the 95 % interval of the gain excludes 0.
_SURE = 0.975

VERDICTS = {
    "ok": "little of the return's weight lies outside the data, and the error of the model is small",
    "weak": "a rough answer",
    "not identifiable": "the data do not determine the return; do not use the numbers",
}
LIMITS = (
    "The interval is no guarantee. Its width comes from models that are fitted to halves of the episodes, "
    "times a factor of 1.3 that is empirical, from errors on episodes that the model had not seen, and from "
    "the spread of returns between the logged starts, by Student's t. With few episodes it is itself "
    "uncertain.",
    "The lower end of the interval counts leaving the data as the worst that was logged, for ever. That is a "
    "cautious number, not a lower bound: the plant may do worse than anything in the log.",
    "The unknown mass says how much of the return's weight lies outside the data. It does not find every "
    "wrong answer, and a large one does not make an answer wrong.",
    "Model error and interval are different things. The plant is taken to be as it was in the log, and the "
    "state columns to contain all that decides what comes next. A hidden state or a delay is seen only where "
    "errors on held-out rows show it, wear or another product is not seen, however narrow the interval.",
    "Only policies without memory are evaluated: the action follows from the present state. The logged "
    "behaviour is imitated in the same way, by what was done in the nearest logged states; a controller with "
    "an integral is matched only on average, unless its integral is a state column.",
    "All returns are those from new starts like the logged ones, or from declared ones. From elsewhere the "
    "policy may do better or worse.",
    "The risk of a region with hardly any logged state in it cannot be known from these data, only bounded.",
    "The certificates bound the error of the arithmetic, not that of the model.",
)


def number(value: float, digits: int = 4) -> str:
    """Return a number of some digits with a true minus sign.

    Example:
        >>> number(-12.3456), number(float("inf")), number(0.5, 2)
        ('−12.35', '∞', '0.5')
    """
    return f"{value:.{digits}g}".replace("-", "−").replace("inf", "∞")


def interval(ends: tuple[float, float], digits: int = 4) -> str:
    """Return an interval."""
    return f"[{number(ends[0], digits)}, {number(ends[1], digits)}]"


def sentence(policy: Assessment, logged: Assessment, gain: Gain) -> str:
    """Return the verdict on a policy with its three numbers."""
    return (
        f"{_opening(policy, gain)}: it is predicted to earn {number(policy.expected_return)} "
        f"(95 % interval {interval(policy.interval)}) against {number(logged.expected_return)}, "
        f"is better with a probability of {chance(gain.probability_better)}, and "
        f"{chance(policy.unknown_mass)} of its return's weight lies outside the data."
    )


def _opening(policy: Assessment, gain: Gain) -> str:
    if policy.verdict == "not identifiable":
        return "The data cannot tell what this policy will earn"
    if gain.probability_better > _SURE:
        found = "better than the logged behaviour"
    elif gain.probability_better < 1 - _SURE:
        found = "worse than the logged behaviour"
    else:
        found = "not significantly different from the logged behaviour"
    if policy.verdict == "weak":
        return f"On data that support it only weakly, this policy is {found}"
    return f"By the data this policy is {found}"
