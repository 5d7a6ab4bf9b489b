"""What the records of the regulator say: one table, and the claims."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.markdown import table
from studies.paper._experiment import MODES, Finding, Mode, mode_of
from studies.paper._regulator import ESTIMATORS, HELD_OUT, SUPPORTED_SHARE
from studies.records import Record
from studies.regulator import optimum

_LOGS: Mapping[str, str] = {
    "printed": "as printed",
    "covering": "covering: x₀ in ±1.5, action noise of sd 3 (ours)",
    "gaussian": "as printed, Gaussian",
}
_HEADS = (
    "log",
    "estimator",
    "supported or close",
    "the others",
    "its ascent: exact return at the end, worst",
)


@dataclass(frozen=True, slots=True)
class Cosines:
    """Cosines with the exact gradient over points and datasets; a point without a direction counts as −1.

    Attributes:
        count: How many there are.
        mean: Their mean.
        least: The least.
    """

    count: int
    mean: float
    least: float

    @classmethod
    def of(cls, cosines: Sequence[float | None]) -> Cosines | None:
        """Return the summary, None of no points."""
        known = [-1.0 if cosine is None else cosine for cosine in cosines]
        return cls(len(known), statistics.fmean(known), min(known)) if known else None

    def __str__(self) -> str:
        return f"{self.mean:.3f} (least {self.least:.2f}; {self.count})"


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One estimator in one mode over all datasets.

    Attributes:
        inside: Cosines at supported gains; of a Gaussian log those within .1 of the behaviour.
        outside: At the other points of the line.
        whole: At all points of the line.
        finals: The exact returns at the ends of its ascents.
        left: How many ascents ended where they left the support.
    """

    inside: Cosines | None
    outside: Cosines | None
    whole: Cosines | None
    finals: tuple[float, ...]
    left: int

    @classmethod
    def of(cls, results: Sequence[Mapping[str, Any]]) -> SummaryRow:
        """Return the summary of runs of one estimator."""
        points = [pair for r in results for pair in zip(r["cosines"], r["support"], strict=True)]
        inside = [cosine for cosine, share in points if share >= SUPPORTED_SHARE]
        outside = [cosine for cosine, share in points if share < SUPPORTED_SHARE]
        if "close" in results[0]:  # the first point of the line is the behaviour itself
            inside = [cosine for r in results for cosine in r["close"]["cosines"]]
            outside = [cosine for r in results for cosine in r["cosines"][1:]]
        return cls(
            inside=Cosines.of(inside),
            outside=Cosines.of(outside),
            whole=Cosines.of([cosine for cosine, _ in points]),
            finals=tuple(r["final_return"] for r in results),
            left=sum(r["own_end"] == "support" for r in results),
        )


_Judge = Callable[[SummaryRow], tuple[str, bool]]


def summaries(records: Sequence[Record], *, held_out: bool = False) -> dict[tuple[Mode, str], SummaryRow]:
    """Return the summary of each mode and estimator, of the first datasets or of held-out ones."""
    rows = {}
    for name in ESTIMATORS:
        for mode in MODES:
            mine = [
                r.results
                for r in records
                if r.method == name and mode_of(r) == mode and (r.seed >= HELD_OUT) == held_out
            ]
            if mine:
                rows[mode, name] = SummaryRow.of(mine)
    return rows


def regulator_table(records: Sequence[Record]) -> list[str]:
    """Return a row for each log, mode and estimator."""
    rows = [
        (
            _LOGS[ESTIMATORS[name].log],
            ESTIMATORS[name].label + ("" if mode == "ours" else ", supplement's settings, all rows"),
            str(row.inside or "none"),
            str(row.outside or "none"),
            f"{statistics.median(row.finals):.4g}, {min(row.finals):.4g} ({row.left} stopped)",
        )
        for (mode, name), row in summaries(records).items()
    ]
    return table(_HEADS, rows) if rows else []


def regulator_findings(records: Sequence[Record]) -> list[Finding]:
    """Return what the records say of every claim."""
    rows, held_out = summaries(records), summaries(records, held_out=True)
    best = optimum()[1]

    def cosines(part: str, mean: float, least: float = -1.0) -> _Judge:
        def judge(row: SummaryRow) -> tuple[str, bool]:
            found: Cosines | None = getattr(row, part)
            return str(found or "no point"), bool(found and found.mean >= mean and found.least >= least)

        return judge

    def arrives(share: float) -> _Judge:
        def judge(row: SummaryRow) -> tuple[str, bool]:
            shown = ", ".join(f"{value:.4g}" for value in row.finals)
            return shown, min(row.finals) >= (1 + share) * best

        return judge

    claims = (
        ("NOPG-D, printed log, supported gains: ≥ .99, least ≥ .95", "nopg-d", cosines("inside", 0.99, 0.95)),
        ("NOPG-D, covering log, the whole line: ≥ .97", "nopg-d-covering", cosines("whole", 0.97)),
        ("the same with LocalModel: ≥ .99", "local-covering", cosines("whole", 0.99)),
        ("NOPG-S, gains within .1 of the behaviour: ≥ .95", "nopg-s", cosines("inside", 0.95)),
        (f"NOPG-D's ascent, covering log: within 10 % of {best:.4f}", "nopg-d-covering", arrives(0.1)),
        (f"the same with LocalModel: within 2 % of {best:.4f}", "local-covering", arrives(0.02)),
    )
    found = [
        _judged(claim, [rows.get(("ours", name)), held_out.get(("ours", name))], judge)
        for claim, name, judge in claims
    ]
    return [*found, _claim_of_the_paper(rows)]


def _judged(claim: str, rows: Sequence[SummaryRow | None], judge: _Judge) -> Finding:
    """Return a finding that is kept only if it is on the first datasets and on the held-out ones."""
    known = [judge(row) for row in rows if row is not None]
    shown = "; held out: ".join(text for text, _ in known) or "not run"
    if len(known) < len(rows):
        return Finding(claim, shown, "not run in full")
    return Finding(claim, shown, "kept" if all(kept for _, kept in known) else "missed")


def _claim_of_the_paper(rows: Mapping[tuple[Mode, str], SummaryRow]) -> Finding:
    claim = (
        "NOPG-D less biased than DPG with the supplement's critic, printed log: supported gains; the others"
    )
    ours, theirs = rows.get(("ours", "nopg-d")), rows.get(("ours", "dpg"))
    if ours is None or theirs is None:
        return Finding(claim, "not run", "not run in full")
    pairs = [(a, b) for a, b in ((ours.inside, theirs.inside), (ours.outside, theirs.outside)) if a and b]
    shown = "; ".join(f"{a.mean:.2f} against {b.mean:.2f}" for a, b in pairs)
    better = sum(a.mean > b.mean for a, b in pairs)
    return Finding(claim, shown, {2: "reproduced", 1: "in part", 0: "not reproduced"}[better])
