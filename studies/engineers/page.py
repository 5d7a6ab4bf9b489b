"""The page of the benchmark and its figure, from records alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nopg.report._style import new_figure
from studies.engineers.methods import METHODS
from studies.engineers.scores import (
    JUDGE,
    REFERENCES,
    SEARCH,
    Cell,
    Choice,
    choices,
    lower_quartile,
    medians,
    scores,
)
from studies.engineers.task import DEVELOPMENT, REPORT, TASKS
from studies.records import Record, last_of_each
from studies.study import table

_METHODS = ("cloning", "lqr", "mpc", "simc", "td3bc", "iql", "neural", "neural-mpc", "planner", "nopg", JUDGE)
_OURS = ("planner", "nopg", JUDGE)
_BEATEN, _WRONG, _TIMED = 5.0, 10.0, 2_000
_LEFT, _RIGHT = -50.0, 130.0
_INTRODUCTION = """# Benchmark

Made by `python -m studies page engineers` from `results/studies/engineers.jsonl`, the runs by
`python -m studies engineers --logs 0-3`; do not edit.

Someone logged a plant with a noisy PI controller or with random steps, {sizes} rows. What does each method
get on the true plant? Scores: 0 is the logged controller itself, without dither and with its set point at
the target, or for random steps the action around which they were made. 100 is the best controller found with
the true plant. Scores are of discounted returns over {episodes} episodes from the starts of the task, the
same for all methods of a log; the first 16 of them for `neural-mpc` and `planner`. A method that refuses a
log scores 0.

`cloning`, `lqr` (least squares + LQR), `mpc` (linear, on the same fit) and `simc` (PI rule, one input and one
output only) are baselines of `nopg.baselines`. `td3bc` and `iql` are d3rlpy's, `neural` is a policy gradient
through an ensemble of neural models, `neural-mpc` the cross-entropy method on the same ensemble. `nopg` is
`nopg.optimize` with nothing set, `planner` is `nopg.planning.Planner` on its model, with its value at the end
of plans as long as those of `neural-mpc`. `judge` is what `nopg.compare` would choose among `nopg`,
`cloning`, `lqr`, `mpc` and the logged controller: the simplest of the best verdict than which no other is
better with 90 % probability. `lqr`, `mpc` and `simc` keep the bounds, `nopg` keeps them as far as the log
knows them; `nopg` and `lqr` have logs 0 and 1.
"""


def page(records: Sequence[Record]) -> str:
    """Return the page from the last record of each run."""
    records = last_of_each(records)
    scored = scores(records)
    cells = medians(scored)
    report = {cell: values for cell, values in cells.items() if _is_report(cell[0])}
    judged = {log: one for log, one in choices(records, scored).items() if _is_report(log[0])}
    sizes = " or ".join(f"{rows}" for rows in sorted({rows for _, rows in cells}))
    episodes = max((one.episodes for one in records), default=0)
    lines = [
        _INTRODUCTION.format(sizes=sizes, episodes=episodes),
        *_losses(scored, report, judged),
        "## Scores",
        "",
        *_scores(scored, cells),
        "",
        "Median over logs; development plants in italics.",
        "",
        *_summary(report),
        "",
        "Medians over report plants and sizes; the last two columns have only what the method was run on.",
        "",
        "![Scores by method](figures/engineers.png)",
        "",
        "## Where a baseline beats our default",
        "",
        *_beaten(report),
        "",
        "## Where our judge chose wrongly",
        "",
        *_wrong(judged),
        "",
        "## CPU seconds of our default",
        "",
        *_seconds(records),
        "",
        "## Plants",
        "",
        *_plants(),
        "",
        "## How 100 was found",
        "",
        *_searches(records),
        "",
        *_notes(records),
        "",
    ]
    return "\n".join(lines)


def figure(records: Sequence[Record]) -> Any:
    """Return the figure: one dot per report plant and size in the row of each method, and its median."""
    found = medians(scores(last_of_each(records)))
    cells = {cell: values for cell, values in found.items() if _is_report(cell[0])}
    drawn = new_figure(7.0, 4.2)
    axes = drawn.subplots()
    methods = [name for name in reversed(_METHODS) if any(name in values for values in cells.values())]
    for place, method in enumerate(methods):
        values = [one[method] for one in cells.values() if method in one]
        shown = [min(max(value, _LEFT), _RIGHT) for value in values]
        colour = "#d1641f" if method in _OURS else "#1b6ca8"
        axes.plot(shown, [place] * len(shown), "o", color=colour, alpha=0.45, markersize=6, clip_on=False)
        middle = min(max(statistics.median(values), _LEFT), _RIGHT)
        axes.plot([middle, middle], [place - 0.32, place + 0.32], color=colour, linewidth=2.5)
        below = sum(value < _LEFT for value in values)
        if below:
            axes.annotate(f"{below} below", (_LEFT + 2, place + 0.2), fontsize=7, color="0.35")
    for reference in (0.0, 100.0):
        axes.axvline(reference, color="0.6", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_xlim(_LEFT, _RIGHT)
    axes.set_xlabel("score: 0 = logged controller, 100 = best found with the true plant")
    axes.set_title("One dot per report plant and size, median over logs; bars are medians", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return drawn


def _is_report(plant: str) -> bool:
    return plant in {task.name for task in REPORT}


def _losses(
    scored: Mapping[tuple[str, int, int], Mapping[str, float]],
    report: Mapping[Cell, Mapping[str, float]],
    judged: Mapping[tuple[str, int, int], Choice],
) -> list[str]:
    ours = [one["nopg"] for log, one in scored.items() if _is_report(log[0]) and "nopg" in one]
    compared = {cell for cell, values in report.items() if "nopg" in values}
    below, wrong = sum(value < 0 for value in ours), sum(_is_wrong(one) for one in judged.values())
    return [
        f"**Losses first.** A method that was run beats our default by more than {_BEATEN:.0f} points on",
        f"{len(_beaters(report))} of {len(compared)} report plants and sizes. Our default ends below the",
        f"logged controller on {below} of {len(ours)} logs. Our judge chose wrongly by more than",
        f"{_WRONG:.0f} points on {wrong} of {len(judged)} logs.",
        "",
    ]


def _scores(
    scored: Mapping[tuple[str, int, int], Mapping[str, float]], cells: Mapping[Cell, Mapping[str, float]]
) -> list[str]:
    rows = []
    for plant, size in sorted(cells, key=lambda cell: (list(TASKS).index(cell[0]), cell[1])):
        logs = sum("nopg" in one for log, one in scored.items() if log[:2] == (plant, size))
        name = plant if _is_report(plant) else f"*{plant}*"
        values = cells[plant, size]
        rows.append((name, str(size), str(logs), *(_shown(values.get(method)) for method in _METHODS)))
    return table(("plant", "rows", "logs", *_METHODS), rows)


def _summary(report: Mapping[Cell, Mapping[str, float]]) -> list[str]:
    rows = []
    for method in _METHODS:
        values = [one[method] for one in report.values() if method in one]
        ours = [one["nopg"] for one in report.values() if method in one and "nopg" in one]
        if values and ours:
            numbers = [part(some) for some in (values, ours) for part in (statistics.median, lower_quartile)]
            rows.append((method, str(len(values)), *(_shown(number) for number in numbers)))
    heads = ("method", "plants × sizes", "median", "lower quartile", "nopg there: median", "lower quartile")
    return table(heads, rows)


def _beaten(report: Mapping[Cell, Mapping[str, float]]) -> list[str]:
    found = []
    for (plant, rows), better in _beaters(report).items():
        listed = ", ".join(f"{method} {_shown(value)}" for method, value in better.items())
        found.append((plant, str(rows), _shown(report[plant, rows]["nopg"]), listed))
    heads = ("plant", "rows", "nopg", f"better by more than {_BEATEN:.0f} points")
    return table(heads, found) if found else ["Nowhere."]


def _beaters(report: Mapping[Cell, Mapping[str, float]]) -> dict[Cell, dict[str, float]]:
    """Return the methods that beat our default by more than some points where there are any, best first."""
    found = {}
    for cell, values in report.items():
        least = values.get("nopg", math.inf) + _BEATEN
        better = {name: value for name, value in values.items() if value > least and name not in _OURS}
        if better:
            found[cell] = dict(sorted(better.items(), key=lambda one: -one[1]))
    return found


def _wrong(judged: Mapping[tuple[str, int, int], Choice]) -> list[str]:
    wrong = {log: one for log, one in judged.items() if _is_wrong(one)}
    counts = {name: sum(one.name == name for one in judged.values()) for name in ("nopg", "lqr", "mpc")}
    others = len(judged) - sum(counts.values())
    shares = ", ".join(f"`{name}` {count}" for name, count in counts.items())
    lines = [
        f"By more than {_WRONG:.0f} points: {len(wrong)} of {len(judged)} logs of report plants. It chose",
        f"{shares}, others {others} times.",
        "",
    ]
    rows = [
        (plant, str(rows), str(seed), one.name, _shown(one.score), one.best_name, _shown(one.best))
        for (plant, rows, seed), one in sorted(wrong.items(), key=lambda item: item[1].score - item[1].best)
    ]
    heads = ("plant", "rows", "log", "choice", "score", "best", "its score")
    return [*lines, *table(heads, rows)] if rows else lines[:-1]


def _is_wrong(choice: Choice) -> bool:
    return choice.best - choice.score > _WRONG


def _seconds(records: Sequence[Record]) -> list[str]:
    rows = []
    for name in TASKS:
        ours = [one for one in records if (one.benchmark, one.method, one.rows) == (name, "nopg", _TIMED)]
        if ours:
            seconds = statistics.median(one.cpu_seconds for one in ours)
            rows.append((name, f"{seconds:.0f}", str(len(ours))))
    head = f"Median of a training at {_TIMED} rows, one thread, without the judge's comparison."
    return [head, "", *table(("plant", "CPU s", "logs"), rows)]


def _plants() -> list[str]:
    rows = []
    for name, task in TASKS.items():
        role = "report" if _is_report(name) else "development"
        episodes = f"episodes of {task.steps} rows" if task.steps else "one episode"
        rows.append((name, role, task.about, task.behaviour, episodes, f"{task.discount:g}"))
    return [
        "The double pendulum is Gymnasium's, the others were written for this page. All constants were fixed",
        "before any method ran on them.",
        "",
        *table(("plant", "role", "what it is there for", "logged by", "log", "γ"), rows),
    ]


def _searches(records: Sequence[Record]) -> list[str]:
    rows = []
    for one in records:
        if one.method == SEARCH:
            found = one.results
            values = (f"{found['regulator']:.4g}", f"{found['return']:.4g}", str(found["evaluations"]))
            rows.append((one.benchmark, *values, *(_mean(records, one.benchmark, k) for k in REFERENCES)))
    return [
        "Direct search (Powell's method) on the true plant with common random numbers, other seeds than",
        "those of the evaluation, over static laws with linear and quadratic terms within bounds. It begins",
        "at the best of the regulators of the true linearisation with prices of actions times .1 to 30.",
        "",
        *table(("plant", "regulator", "found", "laws run", "return at score 0", "at 100"), rows),
        "",
        "Regulator and found are returns in the episodes of the search, the last two in those of the",
        "evaluation, mean over logs. Where 0 and 100 are close, scores exaggerate.",
    ]


def _mean(records: Sequence[Record], plant: str, reference: str) -> str:
    values = [one.true_return for one in records if (one.benchmark, one.method) == (plant, reference)]
    return f"{statistics.fmean(values):.4g}" if values else ""


def _notes(records: Sequence[Record]) -> list[str]:
    development = ", ".join(f"`{task.name}`" for task in DEVELOPMENT)
    refused = sum("refused" in one.summary for one in records)
    run = {(one.benchmark, one.method) for one in records}
    waiting = [name for name in TASKS if (name, "nopg") not in run]
    absent = [name for name in METHODS if all(method != name for _, method in run)]
    versions = ", ".join(sorted({one.commit for one in records if one.method == "nopg"}))
    counts = {
        name: sum(_is_report(one.benchmark) and one.method == name for one in records) for name in METHODS
    }
    return [
        "Runs on report plants: " + ", ".join(f"`{name}` {count}" for name, count in counts.items()) + ";",
        "fewer runs are those of the first logs.",
        "",
        "Settings of `neural-mpc` were chosen on `pumped-tank` and `motor-with-friction`, the rule by which",
        f"nopg returns a network or LQR on {development}. Logs that a method refused: {refused}.",
        f"Versions of nopg: {versions or 'none yet'}. Plants without a run of nopg yet: "
        f"{', '.join(waiting) or 'none'}. Methods without a run yet: {', '.join(absent) or 'none'}.",
    ]


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if math.isfinite(value) and value >= -999 else "< -999"
