"""The tables as Markdown, and the page of the documentation made of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from studies.figures import Figure, figures, score, select
from studies.markdown import table
from studies.plan import METHODS
from studies.plants import BENCHMARKS, Role
from studies.records import Record

__all__ = ["page", "tables"]

_INTRODUCTION = """\
# Benchmark

Made by `python -m studies page` from the records in `results/studies`; do not edit.

Every run is one call of `nopg.optimize` with nothing set but the discount and the seed. Defaults were
chosen on the development plants only; the report plants are run afterwards. Two exceptions. True returns of
five runs on `cart-pole-500hz` had been seen when cautious regulators, wider margins for inputs without
effect and the global fit where it is enough were added. All report plants had been run once when three
rules were added: a badly predicted column makes the verdict `weak` (intervals on `reactor` and `four-tanks`
had been too narrow), no reward is predicted above one that rows share (`inverted-pendulum`), and least
squares + LQR is named in a warning also where the data do not hold it (`motor`). For these rules the report
plants count as development plants.
Each seed is its own dataset, training and set of true episodes, except on the pendulum's grid, whose data are
fixed.

"""
_COMPARISON = """\
Discounted returns on the true plant, mean over seeds ± its standard error; in brackets a score: 0 is the
behaviour that logged the data, 100 is least squares + LQR on the same data. There is no score where LQR is
not better than the behaviour. A mean without an error is that of a single seed; scores compare equal seeds.

"""
_TRAININGS = """\
How our controllers were found: H and the value nodes of the equation, the discounted probability of leaving
the data, whose worth is the pessimism of the objective, and the start of the ascent.

"""


def page(records: Sequence[Record]) -> str:
    """Return the page of the documentation."""
    return _INTRODUCTION + tables(records) + "\n"


def tables(records: Sequence[Record]) -> str:
    """Return all tables: figures, report plants, development plants, trainings."""
    return "\n\n".join(
        [
            "## Figures\n\n" + _figures(figures(records)),
            "## Report plants\n\n" + _COMPARISON + _comparison(records, "report"),
            "## Development plants\n\n" + _comparison(records, "development"),
            "## Trainings\n\n" + _TRAININGS + _trainings(records),
            _versions(records),
        ]
    )


def _figures(lines: Iterable[Figure]) -> str:
    marks = {True: "yes", False: "**no**", None: ""}
    rows = [(line.name, line.must, line.value, marks[line.met]) for line in lines]
    return _table(("figure", "must be", "is", "met"), rows)


def _comparison(records: Sequence[Record], role: Role) -> str:
    """Return one line per benchmark and size, one column per method that has a record."""
    present = {record.method for record in records if record.role == role}
    methods = [method for method in METHODS if method in present]
    lines = []
    for name, benchmark in BENCHMARKS.items():
        if benchmark.role != role:
            continue
        behaviour = select(records, name, method="behaviour")
        for rows in benchmark.sizes:
            lqr = select(records, name, method="lqr", rows=rows)
            cells = []
            for method in methods:
                runs = behaviour if method == "behaviour" else select(records, name, method=method, rows=rows)
                cells.append(_cell(runs, behaviour, lqr))
            if any(cells):
                lines.append((f"{name} {rows}", f"{benchmark.discount:g}", *cells))
    return _table(("plant", "γ", *methods), lines)


def _cell(runs: Sequence[Record], behaviour: Sequence[Record], lqr: Sequence[Record]) -> str:
    if not runs:
        return ""
    returns = [record.true_return for record in runs]
    if lost := sum(math.isinf(value) for value in returns):
        return f"{lost} of {len(returns)} failed"
    error = f" ± {statistics.stdev(returns) / len(returns) ** 0.5:.2g}" if len(returns) > 1 else ""
    points = score(runs, behaviour, lqr)
    return f"{statistics.fmean(returns):.4g}{error}" + ("" if points is None else f" ({points:.0f})")


def _trainings(records: Sequence[Record]) -> str:
    """Return how our runs were trained, by benchmark and size: medians, and the start that won most often."""
    lines = []
    for name, benchmark in BENCHMARKS.items():
        for rows in benchmark.sizes:
            if not (runs := select(records, name, rows=rows)):
                continue
            summaries = [record.summary for record in runs]
            (start, times), *_ = Counter(str(one.get("start")) for one in summaries).most_common(1)
            seconds = [record.cpu_seconds for record in runs]
            lines.append(
                (
                    f"{name} {rows}",
                    _median(summaries, "horizon", ".0f"),
                    _median(summaries, "nodes", ".0f"),
                    _median(summaries, "unknown_mass", ".2%"),
                    f"{start} ({times} of {len(runs)})",
                    f"{sum(one.get('verdict') == 'ok' for one in summaries)} of {len(runs)}",
                    f"{statistics.median(seconds):.1f}, {max(seconds):.1f}",
                )
            )
    heads = ("plant", "H", "nodes", "unknown", "start", "verdict ok", "CPU s: median, longest")
    return _table(heads, lines)


def _median(summaries: Iterable[Mapping[str, Any]], name: str, form: str) -> str:
    values = [one[name] for one in summaries if one.get(name) is not None]
    return format(statistics.median(values), form) if values else ""


def _versions(records: Iterable[Record]) -> str:
    ours = sorted({record.commit for record in records if record.method == "nopg"})
    others = sorted({record.commit for record in records if record.method != "nopg"})
    return f"Versions: nopg {', '.join(ours) or 'none'}; rivals {', '.join(others) or 'none'}."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(table(heads, rows))
