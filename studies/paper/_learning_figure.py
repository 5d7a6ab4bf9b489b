"""Learning curves: returns against the size of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nopg.report._style import new_figure
from studies.paper._experiment import MODE_WORDS, MODES, mode_of
from studies.paper._learning import BY_BEST, LearningStudy, mean_interval, score_of
from studies.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 6


class Style(NamedTuple):
    """Colour of Okabe and Ito, Matplotlib's line style and marker."""

    label: str
    color: str
    line: Any
    marker: str


STYLES: Mapping[str, Style] = {
    "nopg-d": Style("NOPG-D", "#D55E00", "-", "o"),
    "nopg-s": Style("NOPG-S", "#009E73", "--", "s"),
    "pwis": Style("PWIS", "#CC79A7", ":", "v"),
    "ddpg-offline": Style("DDPG offline", "#56B4E9", "-.", "^"),
    "ddpg-online": Style("DDPG online", "#000000", (0, (1, 1)), "x"),
}
"""Safe for colour-blind eyes, and readable without colour."""


def draw_learning_curves(records: Sequence[Record], study: LearningStudy) -> Figure:
    """Return the figure of a learning study, one panel per mode; of the mountain car a drive besides."""
    own = [r for r in records if "demonstrations" not in r.options]
    modes = [mode for mode in MODES if any(mode_of(r) == mode for r in own)]
    drives = [r.results["drives"] for r in own if mode_of(r) == "ours" and "drives" in r.results]
    panels = len(modes) + bool(drives)
    figure: Figure = new_figure(4.2 * panels + 0.4, 4.0)
    figure.suptitle(study.title, fontsize=12)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax, mode in zip(axes, modes, strict=False):
        _panel(ax, [r for r in own if mode_of(r) == mode], study)
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


def _panel(ax: Axes, records: Sequence[Record], study: LearningStudy) -> None:
    for method, style in STYLES.items():
        if mine := [r for r in records if r.method == method]:
            _curve(ax, _points(mine), style, best=method in BY_BEST)
        if papers := study.paper.get(method):
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
        ax.axhline(study.task.solved, color="0.5", linestyle=":", linewidth=1, label="solved")
    sizes = sorted({r.rows for r in records})
    if study.unit == "transitions":
        ax.set_xscale("log")
        if len(sizes) <= _MOST_TICKS:
            ax.set_xticks(sizes, [str(size) for size in sizes])
            ax.minorticks_off()
    online = any(r.method == "ddpg-online" for r in records)
    ax.set_xlabel(f"{study.unit} in the data" + (" (online: steps taken)" if online else ""))
    ax.set_ylabel("return on the true plant")
    ax.grid(color="0.9", linewidth=0.6)


def _curve(ax: Axes, points: dict[int, list[float]], style: Style, *, best: bool) -> None:
    """Draw the mean over trials and its 95 % interval."""
    sizes = sorted(points)
    low, high = zip(*(mean_interval(points[size]) for size in sizes), strict=True)
    ax.plot(
        sizes,
        [float(np.mean(points[size])) for size in sizes],
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        markersize=4,
        label=f"{style.label}, best on the way" if best else style.label,
    )
    ax.fill_between(sizes, low, high, color=style.color, alpha=0.15, linewidth=0)


def _points(records: Sequence[Record]) -> dict[int, list[float]]:
    """Return size → score of each trial; of an online method steps → the best return until then."""
    points: dict[int, list[float]] = {}
    for record in records:
        if record.method != "ddpg-online":
            points.setdefault(record.rows, []).append(score_of(record))
            continue
        best = -np.inf
        for evaluation in record.results["evaluations"]:
            best = max(best, evaluation["return"])
            points.setdefault(evaluation["transitions"], []).append(best)
    return points


def _drive(ax: Axes, drives: dict[str, list[list[float]]]) -> None:
    """Draw a demonstration and what was learned from it, from the same start."""
    for name, color, line, words in (
        ("demonstrated", "0.4", "--", "demonstration"),
        ("learned", STYLES["nopg-d"].color, "-", "learned"),
    ):
        path = drives[name]
        ax.plot(
            *np.transpose(path),
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
