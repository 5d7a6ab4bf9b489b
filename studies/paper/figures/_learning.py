"""Learning curves: returns against the size of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nopg.report._style import new_figure
from studies.paper._experiment import MODE_WORDS, MODES, mode_of
from studies.paper._scores import summarize
from studies.paper.figures._styles import STYLES, Style
from studies.records import Record

__all__ = ["draw_learning_curves"]

_MOST_TICKS = 6


def draw_learning_curves(records: Sequence[Record], experiment: Any) -> Any:
    """Return the figure of a learning study, one panel per mode; of the mountain car a drive besides.

    Args:
        records: Of the study; of several sources of demonstrations, the package's own.
        experiment: The study: name, title, paper's numbers, what solves the task, unit of the sizes, and
            which methods count by their best controller.
    """
    own = [r for r in records if r.options.get("demonstrations") is None]
    modes = [mode for mode in MODES if any(mode_of(r) == mode for r in own)]
    drives = [r.results["drives"] for r in own if mode_of(r) == "ours" and "drives" in r.results]
    panels = len(modes) + bool(drives)
    figure = new_figure(4.2 * panels + 0.4, 4.0)
    figure.suptitle(experiment.title, fontsize=12)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax, mode in zip(axes, modes, strict=False):
        _panel(ax, [r for r in own if mode_of(r) == mode], experiment)
        ax.set_title(MODE_WORDS[mode], fontsize=10)
    if modes:
        lows, highs = zip(*(ax.get_ylim() for ax in axes[: len(modes)]), strict=True)
        for ax in axes[: len(modes)]:
            ax.set_ylim(min(lows), max(highs))
    if drives:
        _drive(axes[-1], drives[0])
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=2 if panels == 1 else 4,  # what fits below them
        fontsize=8,
        frameon=False,
    )
    return figure


def _panel(ax: Any, records: Sequence[Record], experiment: Any) -> None:
    for method, style in STYLES.items():
        mine = [r for r in records if r.method == method]
        if mine:
            _curve(ax, mine, style, best=method in experiment.by_best)
        if papers := experiment.paper.get(method):
            ax.plot(
                list(papers),
                list(papers.values()),
                color=style.color,
                linestyle=style.line,
                linewidth=0.8,
                alpha=0.6,
                label=f"{style.label}, the paper's",
            )
    if any("demonstrator" in r.results for r in records):
        mean = float(np.mean([r.results["demonstrator"] for r in records]))
        ax.axhline(mean, color="0.3", linestyle=(0, (5, 2)), linewidth=1, label="demonstrator")
    else:
        ax.axhline(experiment.task.solved, color="0.5", linestyle=":", linewidth=1, label="solved")
    sizes = sorted({r.rows for r in records})
    if experiment.unit == "transitions":
        ax.set_xscale("log")
        if len(sizes) <= _MOST_TICKS:
            ax.set_xticks(sizes, [str(size) for size in sizes])
            ax.minorticks_off()
    ax.set_xlabel(
        f"{experiment.unit} in the data (online: steps taken)" if _online(records) else _x(experiment)
    )
    ax.set_ylabel("return on the true plant")
    ax.grid(color="0.9", linewidth=0.6)


def _curve(ax: Any, records: Sequence[Record], style: Style, *, best: bool) -> None:
    """Draw the mean over trials and its 95 % interval."""
    if records[0].method == "ddpg-online":
        points = _best_so_far(records)
    else:
        points = {}
        for record in records:
            returns = [evaluation["return"] for evaluation in record.results["evaluations"]]
            points.setdefault(record.rows, []).append(max(returns) if best else returns[-1])
    sizes = sorted(points)
    summaries = [summarize(points[size]) for size in sizes]
    low, high = zip(*(summary.mean_interval for summary in summaries), strict=True)
    label = f"{style.label}, best on the way" if best else style.label
    ax.plot(
        sizes,
        [summary.mean for summary in summaries],
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        markersize=4,
        label=label,
    )
    ax.fill_between(sizes, low, high, color=style.color, alpha=0.15, linewidth=0)


def _best_so_far(records: Sequence[Record]) -> dict[int, list[float]]:
    """Return steps → the best return of each trial until then."""
    points: dict[int, list[float]] = {}
    for record in records:
        best = -np.inf
        for evaluation in record.results["evaluations"]:
            best = max(best, evaluation["return"])
            points.setdefault(evaluation["transitions"], []).append(best)
    return points


def _online(records: Sequence[Record]) -> bool:
    return any(r.method == "ddpg-online" for r in records)


def _x(experiment: Any) -> str:
    return f"{experiment.unit} in the data"


def _drive(ax: Any, drives: dict[str, list[list[float]]]) -> None:
    """Draw a demonstration and what was learned from it, from the same start."""
    for name, color, line, words in (
        ("demonstrated", "0.4", "--", "demonstration"),
        ("learned", STYLES["nopg-d"].color, "-", "learned"),
    ):
        path = np.asarray(drives[name])
        ax.plot(
            path[:, 0],
            path[:, 1],
            color=color,
            linestyle=line,
            linewidth=1.2,
            label=f"{words} ({len(path)} states)",
        )
    ax.axvline(0.45, color="0.5", linestyle=":", linewidth=1, label="goal")
    ax.set_xlabel("position")
    ax.set_ylabel("velocity per step")
    ax.set_title("A drive from the same start", fontsize=10)
    ax.grid(color="0.9", linewidth=0.6)
