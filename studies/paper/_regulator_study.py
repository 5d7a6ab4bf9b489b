"""The study of the regulator: its runs, and what their records say: a figure, a table, claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.report._style import new_figure
from studies.paper._experiment import MODES, Experiment, Finding, Mode, mode_of
from studies.paper._learning_figure import STYLES, Style
from studies.paper._regulator import (
    DATASETS,
    EPISODES,
    ESTIMATORS,
    HELD_OUT,
    STEPS,
    SUPPORTED_SHARE,
    measure_regulator,
    optimum,
)
from studies.records import Record
from studies.study import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOGS: Mapping[str, str] = {
    "printed": "as printed",
    "covering": "covering: x₀ in ±1.5, action noise of sd 3 (ours)",
    "gaussian": "as printed, Gaussian",
}
_HEADS = ("log", "estimator", "supported or close", "the others")
# Where, the least mean, and the least of all cosines.
_CLAIMS = (
    ("NOPG-D, printed log, supported gains: ≥ .99, least ≥ .95", "nopg-d", "inside", 0.99, 0.95),
    ("NOPG-D, covering log, the whole line: ≥ .97", "nopg-d-covering", "whole", 0.97, -1.0),
    ("the same with LocalModel: ≥ .99", "local-covering", "whole", 0.99, -1.0),
    ("NOPG-S, gains within .1 of the behaviour: ≥ .95", "nopg-s", "inside", 0.95, -1.0),
)


class Cosines(NamedTuple):
    """Cosines with the exact gradient over points and datasets; one without a direction counts as −1."""

    inside: list[float]  # At supported gains; of a Gaussian log those within .1 of the behaviour.
    outside: list[float]  # At the other points of the line.
    whole: list[float]  # At all points of the line.


def cosines_of(
    records: Sequence[Record], name: str, mode: Mode = "ours", *, held_out: bool = False
) -> Cosines | None:
    """Return the cosines of an estimator on the first datasets or on held-out ones, None without records."""
    found = Cosines([], [], [])
    for record in records:
        if record.method != name or mode_of(record) != mode or (record.seed >= HELD_OUT) != held_out:
            continue
        results, line = record.results, _known(record.results)
        found.whole.extend(line)
        if "close" in results:  # the first point of the line is the behaviour itself
            found.inside.extend(_known(results["close"]))
            found.outside.extend(line[1:])
            continue
        for cosine, share in zip(line, results["support"], strict=True):
            (found.inside if share >= SUPPORTED_SHARE else found.outside).append(cosine)
    return found if found.whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegulatorStudy(Experiment):
    """Directions of all estimators on datasets of the regulator."""

    def plan(self) -> list[Record]:
        """Return the runs; the size of the data is the supplement's."""
        rows, held_out = EPISODES * STEPS, range(HELD_OUT, HELD_OUT + DATASETS)
        runs = [
            self.run(name, rows, seed, mode)
            for mode in ("ours", "faithful")
            for seed in range(DATASETS)
            for name, one in ESTIMATORS.items()
            if mode == "ours" or one.faithful
        ]
        claimed = [name for name, one in ESTIMATORS.items() if one.claimed]
        return runs + [self.run(name, rows, seed) for seed in held_out for name in claimed]

    def measure(self, run: Record) -> tuple[dict[str, Any], Transitions]:
        """Measure one estimator on one dataset."""
        return measure_regulator(run.method, run.seed, mode_of(run))

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a row for each log, mode and estimator."""
        rows = []
        for name, estimator in ESTIMATORS.items():
            for mode in MODES:
                if found := cosines_of(records, name, mode):
                    label = estimator.label + ("" if mode == "ours" else ", supplement's settings, all rows")
                    rows.append((_LOGS[estimator.log], label, _shown(found.inside), _shown(found.outside)))
        return table(_HEADS, rows) if rows else []

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say; a claim is kept if it is on the first and on held-out datasets."""
        found = []
        for claim, name, part, mean, least in _CLAIMS:
            both = [cosines_of(records, name, held_out=held_out) for held_out in (False, True)]
            parts = [getattr(cosines, part) for cosines in both if cosines]
            kept = all(c and statistics.fmean(c) >= mean and min(c) >= least for c in parts)
            shown = "; held out: ".join(map(_shown, parts)) or "not run"
            found.append(Finding.of(claim, shown, done=len(parts) == len(both), kept=kept))
        return [*found, _claim_of_the_paper(records)]

    def draw(self, records: Sequence[Record]) -> Any:
        """Return the cosines on the line."""
        return draw_regulator(records)


def _claim_of_the_paper(records: Sequence[Record]) -> Finding:
    claim = (
        "NOPG-D less biased than DPG with the supplement's critic, printed log: supported gains; the others"
    )
    ours, theirs = cosines_of(records, "nopg-d"), cosines_of(records, "dpg")
    if ours is None or theirs is None:
        return Finding(claim, "not run", "not run in full")
    pairs = [(ours.inside, theirs.inside), (ours.outside, theirs.outside)]
    means = [(statistics.fmean(a), statistics.fmean(b)) for a, b in pairs if a and b]
    shown = "; ".join(f"{a:.2f} against {b:.2f}" for a, b in means)
    better = sum(a > b for a, b in means)
    return Finding(claim, shown, {2: "reproduced", 1: "in part", 0: "not reproduced"}[better])


def _known(results: Mapping[str, Any]) -> list[float]:
    return [-1.0 if cosine is None else cosine for cosine in results["cosines"]]


def _shown(cosines: Sequence[float]) -> str:
    if not cosines:
        return "none"
    return f"{statistics.fmean(cosines):.3f} (least {min(cosines):.2f}; {len(cosines)})"


_Runs = Sequence[Mapping[str, Any]]

# Up to this distance from the behaviour's gains the axis of NOPG-S is linear, beyond it logarithmic.
_CLOSE = 0.1

_DRAWN: Mapping[str, Style] = {
    "nopg-d": Style("NOPG-D, paper's model", "#D55E00", "-", "o"),
    "local": Style("NOPG-D, LocalModel", "#009E73", "-", "s"),
    "dpg": Style("DPG, supplement's critic", "#0072B2", "-.", "^"),
    "dpg-full": Style("DPG, full quadratic critic", "#56B4E9", ":", "v"),
    "nopg-s": STYLES["nopg-s"],
    "pwis": STYLES["pwis"],
}
_PANELS = (
    ("printed log", ("nopg-d", "local", "dpg", "dpg-full")),
    ("covering log (ours)", ("nopg-d-covering", "local-covering")),
    ("printed log, Gaussian policies", ("nopg-s", "pwis")),
)


def draw_regulator(records: Sequence[Record]) -> Figure:
    """Return the cosines on the line of gains, a panel for each log."""
    shown = [r for r in records if mode_of(r) == "ours" and r.seed < HELD_OUT]
    figure: Figure = new_figure(13.0, 4.4)
    for axes, (title, names) in zip(figure.subplots(1, 3), _PANELS, strict=True):
        runs = {name: [r.results for r in shown if r.method == name] for name in names}
        gaussian = "nopg-s" in names
        axes.set_title(title, fontsize=11)
        _frame(axes, gaussian=gaussian)
        if runs.get("nopg-d"):
            _shade(axes, runs["nopg-d"])
        for name, some in runs.items():
            if some:
                _cosines(axes, some, _DRAWN[name.removesuffix("-covering")], gaussian=gaussian)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=8)
    return figure


def _frame(axes: Axes, *, gaussian: bool) -> None:
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_ylim(-1.05, 1.05)
    axes.set_ylabel("cosine with the exact gradient")
    axes.spines[["top", "right"]].set_visible(False)
    if not gaussian:
        axes.set_xlabel("way from the behaviour (0) to the optimum (1)")
        return
    axes.set_xscale("symlog", linthresh=_CLOSE, linscale=1.5)
    axes.set_xlim(-1.1 * _CLOSE, 8.0)
    axes.set_xticks([-0.1, -0.05, 0.0, 0.05, 0.1, 0.5, 2.0, 7.0], ["−.1", "", "0", "", ".1", ".5", "2", "7"])
    axes.set_xlabel("distance from the behaviour's gains")
    axes.axvspan(-_CLOSE, _CLOSE, color="0.9", zorder=0, label="gains that the log spans")


def _shade(axes: Axes, runs: _Runs) -> None:
    """Shade the line where the logs support its gains, the darker the more of them."""
    shares = np.array(runs[0]["shares"])
    held = np.array([[share >= SUPPORTED_SHARE for share in run["support"]] for run in runs]).mean(axis=0)
    half, label = 0.5 * float(shares[1] - shares[0]), "supported by 1 to all logs"
    for at, share in zip(shares, held, strict=True):
        if share > 0:
            grey = f"{0.97 - 0.2 * share:.2f}"
            axes.axvspan(at - half, at + half, color=grey, linewidth=0, zorder=0, label=label)
            label = "_"  # one entry in the legend


def _cosines(axes: Axes, runs: _Runs, style: Style, *, gaussian: bool) -> None:
    """Draw the mean cosine at every point, −1 without a direction, in a band from least to largest."""
    parts = [[run["close"] for run in runs], runs] if gaussian else [runs]
    x: FloatArray = np.concatenate([part[0]["shares"] for part in parts])
    if gaussian:
        x = x * math.dist(optimum()[0].tolist(), runs[0]["gains"][0])
    table = [
        [-1.0 if c is None else c for part in group for c in part["cosines"]]
        for group in zip(*parts, strict=True)
    ]
    order = np.argsort(x)
    x, values = x[order], np.array(table)[:, order]
    low, high = values.min(axis=0), values.max(axis=0)
    axes.fill_between(x, low, high, color=style.color, alpha=0.13, linewidth=0)
    axes.plot(
        x,
        values.mean(axis=0),
        linestyle=style.line,
        marker=style.marker,
        color=style.color,
        markersize=4,
        label=style.label,
    )
