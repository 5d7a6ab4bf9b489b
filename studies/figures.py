"""The figures of the table, each computed from the records, with what it must be."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from studies.plants import BENCHMARKS
from studies.records import Record

__all__ = ["Figure", "below_behaviour", "figures", "promise", "score", "select"]

_GRID_MEAN, _GRID_WORST = -375.0, -400.0
_FAR_SIGHTED = -325.0
_SWUNG_UP, _BALANCED, _BALANCED_FAST = -500.0, 9_990.0, 9_000.0
# Runs of ten that must get there, by rows; mean returns by demonstrations.
_RANDOM, _CART_POLE, _FAST = {1_000: 9, 3_000: 10}, {1_500: 10, 500: 9, 200: 7}, {1_500: 9}
_DRIVEN = {1: -115.0, 2: -75.0, 5: -70.0, 10: -70.0}
_PROMISE, _SHORTFALL = (0.90, 0.98), 3.0
# How far below LQR, of the span from the behaviour to LQR in per cent.
_BEHIND = 5.0
_INPUTS_HELP, _FORESEEN = 2.0, 0.05
# Report plants, those of the authors and the fast cart-pole apart, on which LQR must be beaten.
_BEATEN, _NEW = 2, ("reactor", "four-tanks", "motor", "inverted-pendulum")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        name: What was measured.
        must: What it must be; empty where nothing is asked.
        value: What it is.
        met: Whether it is so; None where nothing is asked or nothing was run.
    """

    name: str
    must: str
    value: str
    met: bool | None = None


def select(
    records: Iterable[Record], benchmark: str, *, method: str = "nopg", rows: int | None = None
) -> list[Record]:
    """Return the records of a benchmark, method and size, by seed."""
    found = [
        record
        for record in records
        if record.benchmark == benchmark and record.method == method and rows in (None, record.rows)
    ]
    return sorted(found, key=lambda record: record.seed)


def figures(records: Sequence[Record]) -> list[Figure]:
    """Return all lines of the table."""
    return [
        *(_grid(records, rows) for rows in BENCHMARKS["pendulum-grid"].sizes),
        _far_sighted(records),
        *(_count(records, "pendulum-random", rows, _SWUNG_UP, of) for rows, of in _RANDOM.items()),
        *(_count(records, "cart-pole", rows, _BALANCED, of) for rows, of in _CART_POLE.items()),
        *(_count(records, "cart-pole-500hz", rows, _BALANCED_FAST, of) for rows, of in _FAST.items()),
        *(_mean(records, "mountain-car", rows) for rows in BENCHMARKS["mountain-car"].sizes),
        *_arm(records),
        _foreseen(records, "stochastic-pendulum"),
        *_against_lqr(records),
        *promise(records),
        below_behaviour(records),
    ]


def promise(records: Iterable[Record]) -> list[Figure]:
    """Return how often the true return lies in the interval that a verdict of `ok` comes with.

    The shortfall is how far the true return lies below the lower end, in standard errors of prediction and
    true return together.
    """
    judged = [
        record
        for record in records
        if record.method == "nopg"
        and record.summary.get("verdict") == "ok"
        and record.summary.get("interval")
    ]
    inside = sum(
        low <= record.true_return <= high for record in judged for low, high in [record.summary["interval"]]
    )
    worst = max(judged, key=_shortfall, default=None)
    share = f"{inside} of {len(judged)}, {inside / len(judged):.0%}" if judged else "not run"
    largest = "not run"
    if worst is not None:
        largest = f"{max(_shortfall(worst), 0.0):.1f} ({worst.benchmark} {worst.rows}, seed {worst.seed})"
    least, most = _PROMISE
    return [
        Figure(
            "true return in the interval, verdict ok",
            f"{least:.0%} to {most:.0%}",
            share,
            _asked(judged, bool(judged) and least <= inside / len(judged) <= most),
        ),
        Figure(
            "largest shortfall below the interval, in standard errors",
            f"≤ {_SHORTFALL:.0f}",
            largest,
            _asked(judged, worst is not None and _shortfall(worst) <= _SHORTFALL),
        ),
    ]


def below_behaviour(records: Sequence[Record]) -> Figure:
    """Return how many runs end below the behaviour with a verdict of `ok` and no warning.

    Below means by more than two standard errors of the difference, against the behaviour at the same seed.
    """
    behaviour = {(r.benchmark, r.seed): r for r in records if r.method == "behaviour"}
    pairs = [
        (record, behaviour[record.benchmark, record.seed])
        for record in records
        if record.method == "nopg" and (record.benchmark, record.seed) in behaviour
    ]
    below = [run for run, before in pairs if run.true_return < before.true_return - 2 * _error(run, before)]
    silent = [run for run in below if run.summary.get("verdict", "ok") == "ok" and not run.warnings]
    value = f"{len(silent)} without a warning, {len(below)} in all, of {len(pairs)}"
    return Figure(
        "runs that end below the behaviour",
        "0 without a warning",
        value if pairs else "not run",
        _asked(pairs, not silent),
    )


def score(records: Iterable[Record], reference: Sequence[Record], best: Sequence[Record]) -> float | None:
    """Return the mean discounted return on a scale from 0 for a reference to 100 for the best.

    None where there is nothing to compare at the same seeds, or the best is not better than the reference.
    """
    own, low, high = ({r.seed: r.true_return for r in group} for group in (records, reference, best))
    seeds = own.keys() & low.keys() & high.keys()
    if not seeds:
        return None
    mean, zero, hundred = (statistics.fmean(group[seed] for seed in seeds) for group in (own, low, high))
    return 100 * (mean - zero) / (hundred - zero) if hundred > zero else None


def _grid(records: Sequence[Record], rows: int) -> Figure:
    sums = _sums(records, "pendulum-grid", rows)
    return Figure(
        f"pendulum-grid {rows}",
        f"mean ≥ {_GRID_MEAN:.0f}, worst ≥ {_GRID_WORST:.0f}",
        _describe(sums),
        _asked(sums, bool(sums) and statistics.fmean(sums) >= _GRID_MEAN and min(sums) >= _GRID_WORST),
    )


def _far_sighted(records: Sequence[Record]) -> Figure:
    sums = _sums(records, "pendulum-grid-99", 1_800)
    median = statistics.median(sums) if sums else math.nan
    value = f"median {median:.0f}, {_describe(sums)}" if sums else "not run"
    return Figure(
        "pendulum-grid-99 1800", f"median ≥ {_FAR_SIGHTED:.0f}", value, _asked(sums, median >= _FAR_SIGHTED)
    )


def _count(records: Sequence[Record], benchmark: str, rows: int, least: float, of_ten: int) -> Figure:
    sums = _sums(records, benchmark, rows)
    reached = sum(value >= least for value in sums)
    value = f"{reached} of {len(sums)}, {_describe(sums)}" if sums else "not run"
    return Figure(
        f"{benchmark} {rows}, runs that return ≥ {least:.0f}",
        f"{of_ten} of 10",
        value,
        _asked(sums, 10 * reached >= of_ten * len(sums)),
    )


def _mean(records: Sequence[Record], benchmark: str, rows: int) -> Figure:
    sums, least = _sums(records, benchmark, rows), _DRIVEN[rows]
    return Figure(
        f"{benchmark} {rows} {BENCHMARKS[benchmark].unit}",
        f"mean ≥ {least:.0f}",
        _describe(sums),
        _asked(sums, bool(sums) and statistics.fmean(sums) >= least),
    )


def _foreseen(records: Sequence[Record], benchmark: str) -> Figure:
    """Return how far the predicted return of the trained controllers lies from the true one."""
    runs = [record for record in select(records, benchmark) if record.summary.get("expected_return")]
    apart = [abs(record.summary["expected_return"] / record.true_return - 1.0) for record in runs]
    return Figure(
        f"{benchmark}: predicted against true return",
        f"within {_FORESEEN:.0%}",
        f"largest {max(apart):.1%}, {len(apart)} runs" if apart else "not run",
        _asked(apart, bool(apart) and max(apart) <= _FORESEEN),
    )


def _against_lqr(records: Sequence[Record]) -> list[Figure]:
    """Return the score on every report plant where LQR is better than the behaviour."""
    found, scores = list[Figure](), dict[str, float]()
    for name, benchmark in BENCHMARKS.items():
        if benchmark.role != "report":
            continue
        behaviour = select(records, name, method="behaviour")
        for rows in benchmark.sizes:
            runs, rivals = select(records, name, rows=rows), select(records, name, method="lqr", rows=rows)
            reached = score(runs, behaviour, rivals)
            if reached is not None:
                must = f"≥ {100 - _BEHIND:.0f}"
                met = reached >= 100 - _BEHIND
                found.append(Figure(f"{name} {rows}, 100 is LQR", must, f"{reached:.1f}", met))
                if name in _NEW:
                    scores[name] = reached
    above = [name for name, reached in scores.items() if reached > 100.0]
    value = f"{len(above)} of {len(scores)}: {', '.join(above) or 'none'}"
    must = f"at least {_BEATEN}"
    found.append(Figure("new report plants on which LQR is beaten", must, value, len(above) >= _BEATEN))
    return found


def _arm(records: Sequence[Record]) -> list[Figure]:
    """Return the discounted returns on the arm, and by column how much the choice of inputs helps."""
    runs = select(records, "two-link-arm", rows=3_000)
    ratios: dict[str, list[float]] = {}
    for record in runs:
        for column, ratio in record.summary.get("held_out_errors", {}).items():
            ratios.setdefault(column, []).append(ratio)
    means = {column: statistics.fmean(values) for column, values in ratios.items()}
    shown = ", ".join(f"{column} {mean:.2f}" for column, mean in means.items())
    helped = all(mean >= _INPUTS_HELP for column, mean in means.items() if column.startswith("speed"))
    rivals = [r.true_return for r in select(records, "two-link-arm", method="neural", rows=3_000)]
    mine = [r.true_return for r in runs]
    better = bool(mine and rivals) and statistics.fmean(mine) > statistics.fmean(rivals)
    return [
        Figure(
            "two-link-arm 3000, discounted",
            f"above a neural model: {_describe(rivals, digits=2)}",
            _describe(mine, digits=2),
            _asked(mine and rivals, better),
        ),
        Figure(
            "two-link-arm: held-out error with all inputs over that with chosen ones",
            f"≥ {_INPUTS_HELP:.0f} for the speeds",
            shown or "not run",
            _asked(runs, helped),
        ),
    ]


def _sums(records: Sequence[Record], benchmark: str, rows: int) -> list[float]:
    return [record.true_sum for record in select(records, benchmark, rows=rows)]


def _describe(values: Sequence[float], digits: int = 0) -> str:
    if not values:
        return "not run"
    return f"mean {statistics.fmean(values):.{digits}f}, worst {min(values):.{digits}f}, {len(values)} runs"


def _shortfall(record: Record) -> float:
    low, high = (float(end) for end in record.summary["interval"])
    predicted = record.summary.get("standard_error") or (high - low) / (2 * 1.96)
    missing = low - record.true_return
    error = math.hypot(predicted, record.standard_error or 0.0)
    return missing / error if error > 0 else math.copysign(math.inf, missing)


def _error(one: Record, other: Record) -> float:
    return math.hypot(one.standard_error or 0.0, other.standard_error or 0.0)


def _asked(runs: Sequence[object], met: bool) -> bool | None:
    return met if runs else None
