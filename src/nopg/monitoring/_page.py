"""A page on a run: the verdict, measured against predicted columns, the evidence over time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nopg._checks import check_target
from nopg._files import write_files
from nopg._typing import FloatArray
from nopg.errors import ArgumentError
from nopg.inspect._wording import count_of
from nopg.monitoring._monitor import Monitor
from nopg.monitoring._status import Status
from nopg.report._page import render
from nopg.report._style import AFTER, LIMIT, WIDTH, Picture, finish, label, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS, _MOST_STATES = 1_500, 6


def write_page(
    monitor: Monitor, path: str | os.PathLike[str], *, title: str = "A run", overwrite: bool = False
) -> Path:
    """Write what is known of a run as one HTML file that needs no network; return its path."""
    file = check_target(path, overwrite=overwrite, suffix=".html")
    if not monitor.step:
        raise ArgumentError("the monitor has taken no rows; call update or watch first")
    status, history, schema = monitor.status, monitor.history(), monitor.schema
    pictures = {"evidence": _evidence(history, status)}
    for k, name in enumerate((*schema.states[:_MOST_STATES], "reward"), start=1):
        pictures[f"column-{k}"] = _compared(history, name, "predicted", label(name, schema), status)
    for k, name in enumerate(schema.actions if status.shadow else (), start=1):
        pictures[f"action-{k}"] = _compared(history, name, "controller", label(name, schema), status)
    facts = {
        "title": title,
        "subtitle": (
            f"{', '.join(schema.states)} → {', '.join(schema.actions)}; {count_of(status.step, 'step')}, "
            f"{'the controller in shadow' if status.shadow else 'under the controller'}"
        ),
        "status": status,
        "share": min(status.evidence / status.threshold, 1.0),
    }
    write_files({file: render("run.html", facts, pictures).encode()})
    return file


def _evidence(history: Mapping[str, FloatArray], status: Status) -> Picture:
    figure = new_figure(WIDTH, 2.4)
    axes, evidence = figure.subplots(), np.maximum(history["evidence"], 1e-2)
    axes.semilogy(history["step"], evidence, color=AFTER, linewidth=1.2, label="evidence")
    axes.axhline(status.threshold, color=LIMIT, linewidth=1.2, linestyle="--", label="threshold")
    axes.set_ylim(1e-2, max(10 * status.threshold, min(float(evidence.max()), 1e3 * status.threshold)))
    _mark_change(axes, status)
    finish(axes, x="step", legend=True)
    table = {name: history[name] for name in ("step", "evidence", "unknown")}
    return Picture(figure, table, "Evidence against an unchanged plant, and the threshold of an alarm.")


def _compared(history: Mapping[str, FloatArray], name: str, kind: str, text: str, status: Status) -> Picture:
    """Return measured and predicted values; around the change, or the last rows, where there are many."""
    end = len(history["step"])
    if status.change is not None:
        end = min(status.change.found - int(history["step"][0]) + _MOST_POINTS // 2, end)
    rows = slice(max(end - _MOST_POINTS, 0), max(end, 0))
    own = "measured" if kind == "predicted" else "applied"
    figure = new_figure(WIDTH, 2.2)
    axes, table = figure.subplots(), {key: history[key] for key in ("step", name, f"{kind} {name}")}
    steps, values, others = (column[rows] for column in table.values())
    axes.plot(steps, values, color="black", linewidth=1.0, label=own)
    axes.plot(steps, others, color=AFTER, linewidth=1.0, linestyle="--", label=kind)
    _mark_change(axes, status)
    finish(axes, x="step", title=text, legend=True)
    return Picture(figure, table, f"{name}, {own} and {kind}.")


def _mark_change(axes: Axes, status: Status) -> None:
    low, high = axes.get_xlim()
    if status.change is not None and low <= status.change.since <= high:
        axes.axvline(status.change.since, color=LIMIT, linewidth=1.0, label="change")
