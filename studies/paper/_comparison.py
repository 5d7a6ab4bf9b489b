"""All methods on the same data, which the paper does not compare."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nopg.evaluation import OfflineEvaluator
from studies.baselines import fitted_q_evaluation
from studies.markdown import table
from studies.paper._experiment import Finding, Measurement, Trial
from studies.paper._learning import LearningStudy
from studies.paper._methods import METHODS
from studies.paper._scores import Scores, summarize
from studies.records import Record

__all__ = ["ComparisonStudy", "highest_mean"]

_QUICK_UPDATES = 10
_SCORES = ("method", "last", "IQM of last, 95 %", "best", "selected", "solved", "seconds", "updates")
_NEEDS = ("method", "unknown behaviour", "unconnected transitions", "deterministic policies", "settings")
_NOTES = (
    "Every method gets the same transitions, except online DDPG, which acts in the plant (its updates are "
    "steps there); nothing is tuned per method beyond the supplement's settings and each library's defaults. "
    "*last* is the controller at the end of training, what a user gets; *best* is the best of ten snapshots "
    "by running them on the true plant, which nobody can do offline and which the paper reports of its "
    "rivals (of itself it reports the last); *selected* is the snapshot with the highest return by offline "
    "evaluation on the same data. NOPG with our defaults has one snapshot, what `optimize` returns. Returns "
    "are means over seeds; *solved* counts seeds by their last controller."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonStudy(LearningStudy):
    """Methods on one task, also evaluated from the data alone."""

    def measure(self, trial: Trial) -> Measurement:
        """Train, evaluate every snapshot offline and on the plant; with seed 0 by fitted Q evaluation too."""
        task, method = self.task, METHODS[trial.method]
        data = task.data(trial.size, trial.seed)
        evaluator = OfflineEvaluator(data, task.discount)
        updates = _QUICK_UPDATES if trial.quick else method.updates
        snapshots = method.train(task, data, trial.seed, updates)
        runs = [task.evaluate(snapshot.controller, trial.seed) for snapshot in snapshots]
        results: dict[str, Any] = {
            "evaluations": [
                {
                    "updates": snapshot.updates,
                    "transitions": snapshot.transitions,
                    "seconds": snapshot.seconds,
                    "return": run.mean,
                    "judged": evaluator.assess(snapshot.controller).expected_return,
                }
                for snapshot, run in zip(snapshots, runs, strict=True)
            ],
            "discounted": runs[-1].discounted(task.discount),
            "fitted_q": None,
        }
        if trial.seed == 0:
            results["fitted_q"] = fitted_q_evaluation(
                snapshots[-1].controller,
                data,
                discount=task.discount,
                updates=_QUICK_UPDATES if trial.quick else None,
                seed=trial.seed,
            ).expected_return
        return Measurement(results, data, {"task": task.name, "updates": updates})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return the scores of all methods, and what each method needs."""
        lines = [_NOTES, ""]
        for size in sorted({record.rows for record in records}):
            mine = [record for record in records if record.rows == size]
            lines += [f"**{self.task.name}, {size} transitions.**", "", *table(_SCORES, self._rows(mine)), ""]
            lines += [_winners(mine), "", *_errors(mine), ""]
            if old := sorted({record.method for record in mine} - set(METHODS)):
                lines += [f"Not in the table: {', '.join(old)}, which this version does not have.", ""]
        return [*lines, "**What each method needs.**", "", *table(_NEEDS, _needs())]

    def _rows(self, records: Sequence[Record]) -> Iterator[list[str]]:
        for name, method in METHODS.items():
            mine = [record for record in records if record.method == name]
            if not mine:
                continue
            each = [_scores(record) for record in mine]
            last = summarize([score.last for score in each])
            ends = [record.results["evaluations"][-1] for record in mine]
            yield [
                method.label,
                f"{last.mean:.1f}",
                f"{last.iqm:.1f} [{last.iqm_interval[0]:.1f}, {last.iqm_interval[1]:.1f}]",
                f"{statistics.fmean(score.best for score in each):.1f}",
                f"{statistics.fmean(score.selected for score in each):.1f}",
                f"{sum(score.last >= self.task.solved for score in each)} of {len(each)}",
                f"{statistics.fmean(end['seconds'] for end in ends):.0f}",
                f"{statistics.fmean(end['updates'] for end in ends):.0f}",
            ]


def highest_mean(study: LearningStudy, records: Sequence[Record]) -> list[Finding]:
    """Return the method whose last controllers have the highest mean return."""
    del study
    claim = "The method with the highest mean return of its last controllers"
    if not records:
        return [Finding(claim, "not run", "not run in full")]
    return [Finding(claim, _winners(records).split("last: ")[1].split("; best")[0], "")]


def _scores(record: Record) -> Scores:
    evaluations = record.results["evaluations"]
    return Scores(tuple(e["return"] for e in evaluations), tuple(e["judged"] for e in evaluations))


def _winners(records: Sequence[Record]) -> str:
    """Return the best method by each score, among all and among those that only read data."""
    words = []
    for score in ("last", "best", "selected"):
        means = {
            name: statistics.fmean(getattr(_scores(r), score) for r in records if r.method == name)
            for name in METHODS
            if any(r.method == name for r in records)
        }
        offline = {name: mean for name, mean in means.items() if METHODS[name].needs != "simulator"}
        first = max(means, key=means.__getitem__)
        words.append(f"{score}: {METHODS[first].label} ({means[first]:.1f})")
        if offline and first not in offline:
            reader = max(offline, key=offline.__getitem__)
            words[-1] += f", of those that only read data {METHODS[reader].label} ({offline[reader]:.1f})"
    return f"Highest mean. {'; '.join(words)}."


def _errors(records: Sequence[Record]) -> list[str]:
    """Return how far two evaluations from data alone are from the true discounted return."""
    both = [record.results for record in records if record.results["fitted_q"] is not None]
    if not both:
        return []
    offline = statistics.median(abs(r["evaluations"][-1]["judged"] - r["discounted"]) for r in both)
    fitted = statistics.median(abs(r["fitted_q"] - r["discounted"]) for r in both)
    return [
        f"Discounted return of the last controllers from the data alone, median error over {len(both)}: "
        f"offline evaluation {offline:.1f}; FQE {fitted:.1f}."
    ]


def _needs() -> Iterator[list[str]]:
    for method in METHODS.values():
        free = "yes" if method.needs == "transitions" else "no"
        if method.needs == "simulator":
            free = "no data: it asks for the plant"
        yield [method.label, free, free, "yes" if method.deterministic else "no", method.source]
