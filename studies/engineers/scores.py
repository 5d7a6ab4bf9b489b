"""Scores from records: 0 is the controller that logged the data, 100 the best found with the true plant."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from studies.records import Record

SEARCH = "search"
"""The search for the best controller with the true plant."""
REFERENCES = ("behaviour", "best")
"""What scores 0 and what scores 100; they do not depend on the size of a log."""

JUDGE = "judge"
"""The method that our judge chose among ours, the baselines and the logged controller."""
_LOGGED = "logged"

Log = tuple[str, int, int]
"""Plant, rows and seed."""
Cell = tuple[str, int]
"""Plant and rows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What our judge chose on one log."""

    name: str  # The choice; `logged` keeps the controller of the log.
    score: float  # Its score.
    best: float  # The highest score among what was to choose from.
    best_name: str  # What has it.


def scores(records: Iterable[Record]) -> dict[Log, dict[str, float]]:
    """Return the scores of all methods on every log, that of the judge's choice included.

    A method that was run in fewer episodes is compared with the references in the same episodes. One that
    refused the log scores 0: the logged controller stays. Logs without both references are left out, as are
    those on which the best controller is not better than the logged one.
    """
    every = list(records)
    references = {
        (one.benchmark, one.method, one.seed): one.results["returns"]
        for one in every
        if one.rows == 0 and one.episodes
    }
    found: dict[Log, dict[str, float]] = {}
    for one in every:
        low, high = (references.get((one.benchmark, name, one.seed)) for name in ("behaviour", "best"))
        if one.rows and low and high and (value := _score(one, low, high)) is not None:
            found.setdefault((one.benchmark, one.rows, one.seed), {})[one.method] = value
    for log, choice in choices(every, found).items():
        found[log][JUDGE] = choice.score
    return found


def choices(records: Iterable[Record], scored: Mapping[Log, Mapping[str, float]]) -> dict[Log, Choice]:
    """Return the choice of our judge on every log on which all it could choose from has a score."""
    found = {}
    for one in records:
        log, judged = (one.benchmark, one.rows, one.seed), one.results.get("judge")
        if judged is None or log not in scored:
            continue
        values = {_LOGGED: 0.0, **scored[log]}
        if all(name in values for name in judged["evaluations"]):
            possible = {name: values[name] for name in judged["evaluations"]}
            best = max(possible, key=lambda name: possible[name])
            found[log] = Choice(judged["choice"], possible[judged["choice"]], possible[best], best)
    return found


def medians(scored: Mapping[Log, Mapping[str, float]]) -> dict[Cell, dict[str, float]]:
    """Return the medians over logs, by plant and rows."""
    groups: dict[Cell, dict[str, list[float]]] = {}
    for (plant, rows, _), values in scored.items():
        for method, value in values.items():
            groups.setdefault((plant, rows), {}).setdefault(method, []).append(value)
    return {
        cell: {method: statistics.median(values) for method, values in group.items()}
        for cell, group in groups.items()
    }


def lower_quartile(values: Sequence[float]) -> float:
    """Return the value below which a quarter lies; the lower of two neighbours, so −∞ may be one of them."""
    return sorted(values)[(len(values) - 1) // 4]


def _score(record: Record, low: Sequence[float], high: Sequence[float]) -> float | None:
    refused = "refused" in record.summary
    episodes = len(low) if refused else record.episodes
    zero, hundred = (statistics.fmean(returns[:episodes]) for returns in (low, high))
    if hundred <= zero:
        return None
    return 0.0 if refused else 100 * (record.true_return - zero) / (hundred - zero)
