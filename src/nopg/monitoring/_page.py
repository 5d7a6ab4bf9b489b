"""A page on a run: the verdict, measured against predicted columns, the evidence over time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nopg._checks import check_target
from nopg._files import write_files
from nopg._typing import FloatArray
from nopg.data import Schema
from nopg.errors import ArgumentError
from nopg.inspect._wording import count_of
from nopg.monitoring._monitor import Monitor
from nopg.monitoring._status import Status
from nopg.report._page import render
from nopg.report._style import AFTER, LIMIT, WIDTH, Picture, finish, label, new_figure

_MOST_POINTS, _MOST_STATES, _PANEL = 1_500, 6, 1.6


def write_page(
    monitor: Monitor, path: str | os.PathLike[str], *, title: str = "A run", overwrite: bool = False
) -> Path:
    """Write what is known of a run as one HTML file that needs no network; return its path."""
    file = check_target(path, overwrite=overwrite, suffix=".html")
    if not monitor.step:
        raise ArgumentError("the monitor has taken no rows; call update or watch first")
    status, schema = monitor.status, monitor.schema
    facts = {
        "title": title,
        "subtitle": (
            f"{', '.join(schema.states)} → {', '.join(schema.actions)}; {count_of(status.step, 'step')}, "
            f"{'the controller in shadow' if status.shadow else 'under the controller'}"
        ),
        "status": status,
        "share": min(status.evidence / status.threshold, 1.0),
    }
    pictures = {"run": _run(monitor.history(), schema, status)}
    write_files({file: render("run.html", facts, pictures).encode()})
    return file


def _run(history: Mapping[str, FloatArray], schema: Schema, status: Status) -> Picture:
    """Return columns and evidence around the change, or of the last rows, where there are many."""
    end, change = len(history["step"]), status.change
    if change is not None:
        end = min(change.found - int(history["step"][0]) + _MOST_POINTS // 2, end)
    rows = slice(max(end - _MOST_POINTS, 0), max(end, 0))
    shown = [(name, "measured", "predicted") for name in (*schema.states[:_MOST_STATES], "reward")]
    shown += [(name, "applied", "controller") for name in schema.actions if status.shadow]
    figure, step = new_figure(WIDTH, _PANEL * (len(shown) + 1)), history["step"][rows]
    *panels, last = figure.subplots(len(shown) + 1, 1, sharex=True)
    table = {name: history[name] for name in ("step", "evidence", "unknown")}
    for axes, (name, own, other) in zip(panels, shown, strict=True):
        table |= {key: history[key] for key in (name, f"{other} {name}")}
        axes.plot(step, history[name][rows], color="black", linewidth=1.0, label=own)
        other_values = history[f"{other} {name}"][rows]
        axes.plot(step, other_values, color=AFTER, linewidth=1.0, linestyle="--", label=other)
        finish(axes, title=label(name, schema), legend=True)
    evidence = np.maximum(history["evidence"][rows], 1e-2)
    last.semilogy(step, evidence, color=AFTER, linewidth=1.2)
    last.axhline(status.threshold, color=LIMIT, linewidth=1.2, linestyle="--", label="threshold")
    last.set_ylim(1e-2, max(10 * status.threshold, min(float(evidence.max()), 1e3 * status.threshold)))
    if change is not None and step[0] <= change.since <= step[-1]:
        for axes in (*panels, last):
            axes.axvline(change.since, color=LIMIT, linewidth=1.0, label="change")
    finish(last, x="step", title="evidence", legend=True)
    return Picture(
        figure, table, "Measured and predicted one step ahead; evidence that the plant has changed."
    )
