"""A page on a run: verdict, evidence over time, measured against predicted columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nopg._files import write_files
from nopg._typing import FloatArray
from nopg._version import __version__
from nopg.errors import ArgumentError
from nopg.inspect._wording import count_of, share_of
from nopg.monitoring._monitor import Monitor
from nopg.monitoring._status import Status
from nopg.report._page import figure, figures, note, page, section, verdict
from nopg.report._pictures import Picture
from nopg.report._state_axes import named, plain
from nopg.report._style import new_figure
from nopg.report._wording import interval, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICTS = {
    "keep": "Keep: the plant does what the model predicts.",
    "look": "Look: something is not as predicted.",
    "retrain": "Retrain: the model no longer describes the plant.",
    "stop": "Stop: go back to the old controller, then retrain.",
}
_KINDS = {"keep": "ok", "look": "weak", "retrain": "weak", "stop": "not"}
_MEASURED, _PREDICTED, _LIMIT = "#000000", "#0072B2", "#D55E00"
_MOST_POINTS, _MOST_STATES, _MOST_CELLS = 1_500, 6, 12_000


def write_page(
    monitor: Monitor, path: str | os.PathLike[str], *, title: str = "A run", overwrite: bool = False
) -> Path:
    """Write what is known of a run as one HTML file that needs no network; return its path.

    Args:
        monitor: A monitor that has taken rows.
        path: Path of the page.
        title: Title of the page.
        overwrite: Whether an existing file is replaced.
    """
    file = Path(path)
    if file.suffix.lower() not in {".html", ".htm"}:
        raise ArgumentError(f"{file} does not end in .html; the page is one HTML file")
    if file.exists() and not overwrite:
        raise ArgumentError(f"{file} exists already; give another path, or overwrite")
    if not monitor.step:
        raise ArgumentError("the monitor has taken no rows; call update or watch first")
    status, history = monitor.status, monitor.history()
    schema = monitor.schema
    subtitle = (
        f"{', '.join(schema.states)} → {', '.join(schema.actions)}; {count_of(status.step, 'step')}, "
        f"{'the controller in shadow' if status.shadow else 'under the controller'}; nopg {__version__}"
    )
    shown = [*schema.states[:_MOST_STATES], "reward"]
    columns = [_compared(history, name, f"predicted {name}", named(name, schema), status) for name in shown]
    actions = [
        _compared(history, name, f"controller {name}", named(name, schema), status)
        for name in (schema.actions if status.shadow else ())
    ]
    parts = [
        _verdict(status),
        section("Evidence that the plant has changed", figures([_evidence(history, status)]), note(_BOUND)),
        section("Measured and predicted one step ahead", figures(columns)),
    ]
    if actions:
        parts.append(section("Actions: applied, and what the controller would do", figures(actions)))
    write_files({file: page(title, subtitle, parts).encode()})
    return file


_BOUND = (
    "The evidence reaches the threshold within n steps of an unchanged plant with probability at most n "
    "divided by the threshold, if errors one step ahead rank like those of held-out rows of the log, up to "
    "an allowance for the error of the model. Rows outside the log do not count."
)


def _verdict(status: Status) -> str:
    of_alarm = f"of an alarm, raised at step {status.change.found}" if status.change else "of an alarm"
    cards = {"Evidence": (share_of(min(status.evidence / status.threshold, 1.0)), of_alarm)}
    if status.change is not None:
        found = f"since about step {status.change.since}, found at step {status.change.found}"
        cards["Change"] = (status.change.column, f"{status.change.words}; {found}")
    if (earned := status.earnings) is not None:
        cards["Return"] = (
            number(earned.measured),
            f"predicted {number(earned.predicted)} {interval(earned.interval)} from the same states; "
            f"stretches: {earned.stretches}",
        )
    if status.whereabouts is not None:
        where = status.whereabouts
        cards["Outside the log"] = (
            share_of(where.outside),
            "of the last rows"
            + ("" if where.expected is None else f"; predicted {share_of(where.expected)}"),
        )
    if (shadow := status.shadow) is not None and shadow.predicted is not None and shadow.acting is not None:
        cards["Predicted return"] = (
            number(shadow.predicted),
            f"of the controller in shadow; {number(shadow.acting)} of the one that acts",
        )
    told = [VERDICTS[status.verdict], *(f"{reason[0].upper()}{reason[1:]}." for reason in status.reasons)]
    return verdict(_KINDS[status.verdict], " ".join(told), cards)


def _evidence(history: Mapping[str, FloatArray], status: Status) -> str:
    drawn, axes = _new()
    steps, evidence = history["step"], np.maximum(history["evidence"], 1e-2)
    axes.semilogy(steps, evidence, color=_PREDICTED, linewidth=1.2, label="evidence")
    axes.axhline(status.threshold, color=_LIMIT, linewidth=1.2, linestyle="--", label="threshold")
    axes.set_ylim(1e-2, max(10 * status.threshold, min(float(evidence.max()), 1e3 * status.threshold)))
    axes.set_ylabel("evidence", fontsize=9)
    _finish(axes, status)
    table = {name: history[name] for name in ("step", "evidence", "unknown")}
    text = "Evidence against an unchanged plant, and the threshold of an alarm."
    return figure(Picture(drawn, table), file="evidence.csv", text=text, cells=_MOST_CELLS)


def _compared(history: Mapping[str, FloatArray], name: str, beside: str, label: str, status: Status) -> str:
    """Return measured and predicted values; around the change, or the last rows, where there are many."""
    count = len(history["step"])
    end = count
    if status.change is not None:
        end = min(status.change.found - int(history["step"][0]) + _MOST_POINTS // 2, count)
    rows = slice(max(end - _MOST_POINTS, 0), max(end, 0))
    drawn, axes = _new()
    own, other = ("measured", "predicted") if beside.startswith("predicted") else ("applied", "controller")
    steps = history["step"][rows]
    axes.plot(steps, history[name][rows], color=_MEASURED, linewidth=1.0, label=own)
    axes.plot(steps, history[beside][rows], color=_PREDICTED, linewidth=1.0, linestyle="--", label=other)
    axes.set_ylabel(label, fontsize=9)
    _finish(axes, status)
    table = {key: history[key] for key in ("step", name, beside)}
    return figure(
        Picture(drawn, table), file=f"{name}.csv", text=f"{name}, {own} and {other}.", cells=_MOST_CELLS
    )


def _new() -> tuple[Figure, Axes]:
    drawn: Figure = new_figure(4.8, 2.4)
    return drawn, drawn.subplots()


def _finish(axes: Axes, status: Status) -> None:
    low, high = axes.get_xlim()
    if status.change is not None and low <= status.change.since <= high:
        axes.axvline(status.change.since, color=_LIMIT, linewidth=1.0, label=plain("change"))
    axes.set_xlabel("step", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
