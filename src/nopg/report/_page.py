"""Pages: one self-contained HTML file from a template and facts; numbers and the verdict in words."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from nopg._columns import readable
from nopg._version import __version__
from nopg.evaluation import Assessment, Gain
from nopg.inspect._wording import chance, count_of, duration, share_of
from nopg.report._style import Picture, csv_table, png

# Numbers of a figure that a page holds.
_MOST_CELLS = 6_000
# Probability at which the 95 % interval of the gain excludes 0.
_SURE = 0.975


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("nopg.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    found.filters |= {
        "number": number,
        "interval": interval,
        "chance": chance,
        "share": share_of,
        "count": count_of,
        "steps": steps_text,
        "closed": closed,
        "dashes": lambda text: text.replace("-", "−"),
    }
    return found


def render(template: str, facts: Mapping[str, Any], pictures: Mapping[str, Picture]) -> str:
    """Return a page with facts and figures by name; the template says where these stand."""
    figures = {name: _figure(name, picture) for name, picture in pictures.items()}
    return _environment().get_template(template).render(**facts, version=__version__, figures=figures)


def _figure(name: str, picture: Picture) -> dict[str, str]:
    """Return the image, its text, and its numbers as CSV."""
    every = max(math.ceil(sum(map(len, picture.table.values())) / _MOST_CELLS), 1)
    numbers = {name: column[::every] for name, column in picture.table.items()}
    rows, kept = (len(next(iter(table.values()))) for table in (picture.table, numbers))
    return {
        "image": base64.b64encode(png(picture.figure)).decode(),
        "text": picture.text,
        "numbers": base64.b64encode(csv_table(numbers, digits=6).encode()).decode(),
        "file": re.sub(r"[^\w.-]+", "_", name)[:60] + ".csv",
        "thinned": f" ({kept} of {rows} rows)" if kept < rows else "",
    }


def steps_text(steps: int, interval: float | None) -> str:
    """Return a number of steps, with their time where it is known.

    Example:
        >>> steps_text(90, 60.0), steps_text(1, None)
        ('90 steps (1.5 h)', '1 step')
    """
    text = count_of(steps, "step")
    return text if interval is None else f"{text} ({duration(steps * interval)})"


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


def interval(ends: tuple[float, float]) -> str:
    return f"[{number(ends[0])}, {number(ends[1])}]"


def sentence(policy: Assessment, logged: Assessment, gain: Gain) -> str:
    """Return the verdict on a policy with its numbers."""
    found = "not significantly different from"
    if not 1 - _SURE <= gain.probability_better <= _SURE:
        found = "better than" if gain.probability_better > _SURE else "worse than"
    opening = "By the data" if policy.verdict == "ok" else "On data that support it only weakly,"
    opening = f"{opening} this policy is {found} the logged behaviour"
    if policy.verdict == "not identifiable":
        opening = "The data cannot tell what this policy will return"
    return (
        f"{opening}: it is predicted to return {number(policy.expected_return)} "
        f"(95 % interval {interval(policy.interval)}) against {number(logged.expected_return)}, "
        f"is better with a probability of {chance(gain.probability_better)}, and "
        f"{chance(policy.unknown_mass)} of its return's weight lies outside the data."
    )
