"""The study of the regulator: its runs, and what their records say: a figure, a table, claims."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nopg.data import Transitions
from studies.paper._experiment import MODES, Experiment, Finding, Mode, mode_of
from studies.paper._regulator import (
    DATASETS,
    EPISODES,
    ESTIMATORS,
    HELD_OUT,
    SUPPORTED_SHARE,
    measure_regulator,
)
from studies.paper._regulator_figure import draw_regulator
from studies.records import Record
from studies.regulator import STEPS
from studies.study import table

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
