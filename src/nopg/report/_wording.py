"""The words of a page: numbers, names, the verdict, the limits."""

from __future__ import annotations

import unicodedata

from nopg.evaluation import Assessment, Gain
from nopg.inspect._wording import chance

# Probability at which the 95 % interval of the gain excludes 0.
_SURE = 0.975
# Control characters, those that turn the direction of a text, and halves of characters.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

VERDICTS = {
    "ok": "little of the return's weight lies outside the data, and the error of the model is small",
    "weak": "a rough answer",
    "not identifiable": "the data do not determine the return; do not use the numbers",
}
LIMITS = (
    "The interval is not a guarantee. Its width comes from models that are fitted to halves of the episodes, "
    "times a factor of 1.3 that is empirical, from errors on episodes that the model had not seen, and from "
    "the spread of returns between the logged starts, by Student's t. With few episodes it is itself "
    "uncertain.",
    "The lower end of the interval counts leaving the data as the worst that was logged, forever. That is a "
    "cautious number, not a lower bound: the plant may do worse than anything in the log.",
    "The unknown mass says how much of the return's weight lies outside the data. It does not find every "
    "wrong answer, and a large one does not make an answer wrong.",
    "The plant is taken to be as it was in the log, and the state columns to contain all that decides what "
    "comes next. A hidden state or a delay is seen only where errors on held-out rows show it; wear or "
    "another product is not seen, however narrow the interval.",
    "The logged behaviour is imitated by what was done in the nearest logged states. A controller with an "
    "integral is matched only on average, unless its integral is a state column.",
    "All returns are those from new starts like the logged ones, or from declared ones. From elsewhere the "
    "policy may do better or worse.",
    "The risk of a region with hardly any logged state in it cannot be known from these data, only bounded.",
)


def readable(text: str) -> str:
    r"""Return a text whose invisible characters are written as escapes.

    Example:
        >>> print(readable("level\n\ud800 m³/h"))
        level\n\ud800 m³/h
    """
    return "".join(
        one.encode("unicode_escape").decode("ascii") if unicodedata.category(one) in _HIDDEN else one
        for one in text
    )


def closed(text: str) -> str:
    """Return a message as a sentence; a name that begins it stays as it is.

    Example:
        >>> closed("8 starts in the log"), closed("the reward is known"), closed("level_lag1 is constant")
        ('8 starts in the log.', 'The reward is known.', 'level_lag1 is constant.')
    """
    first = text.split(" ", 1)[0]
    begun = text[:1].upper() + text[1:] if first.rstrip(":").isalpha() else text
    return begun if begun.endswith(".") else begun + "."


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
    """Return the verdict on a policy with its numbers."""
    return (
        f"{_opening(policy, gain)}: it is predicted to return {number(policy.expected_return)} "
        f"(95 % interval {interval(policy.interval)}) against {number(logged.expected_return)}, "
        f"is better with a probability of {chance(gain.probability_better)}, and "
        f"{chance(policy.unknown_mass)} of its return's weight lies outside the data."
    )


def _opening(policy: Assessment, gain: Gain) -> str:
    if policy.verdict == "not identifiable":
        return "The data cannot tell what this policy will return"
    if gain.probability_better > _SURE:
        found = "better than the logged behaviour"
    elif gain.probability_better < 1 - _SURE:
        found = "worse than the logged behaviour"
    else:
        found = "not significantly different from the logged behaviour"
    if policy.verdict == "weak":
        return f"On data that support it only weakly, this policy is {found}"
    return f"By the data this policy is {found}"


def listed_numbers(numbers: tuple[int, ...]) -> str:
    """Return ascending numbers in words.

    Example:
        >>> listed_numbers((0, 1, 2, 5, 8, 9))
        '0 to 2, 5, 8, 9'
    """
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(words)
