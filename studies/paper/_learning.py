"""Learning studies: methods on data of growing size, run on the true plant."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import simulate
from nopg.errors import ArgumentError
from nopg.evaluation import control_law
from studies.demonstrations import recorded_demonstrations, some_of
from studies.paper._experiment import MODE_WORDS, MODES, Experiment, Finding, Mode, mode_of
from studies.paper._methods import LABELS, train
from studies.paper._tasks import TASKS, Task
from studies.records import Record
from studies.study import table

BY_BEST = ("pwis", "ddpg-offline", "ddpg-online")
"""Methods that count by their best controller on the way, as in the paper; NOPG counts by its last."""

_RESAMPLES = 5_000


@dataclass(frozen=True, slots=True)
class Curve:
    """One method over sizes of data."""

    method: str  # Its name.
    sizes: tuple[int, ...]  # Of the data; of an online method its steps, of which the curve is made.
    trials: int = 10  # Seeds at each size.
    mode: Mode = "ours"  # Whose settings.


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStudy(Experiment):
    """Methods on the task of the same name."""

    curves: tuple[Curve, ...]  # What is run.
    to_findings: Callable[[LearningStudy, Sequence[Record]], list[Finding]]  # Turns records into findings.
    # The paper's mean returns by method and size, where it prints them.
    paper: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    unit: str = "transitions"  # What sizes count.

    @property
    def task(self) -> Task:
        """The task."""
        return TASKS[self.name]

    def plan(self) -> list[Record]:
        """Return the runs, small data first."""
        runs = [
            self.run(curve.method, size, seed, curve.mode)
            for curve in self.curves
            for size in curve.sizes
            for seed in range(curve.trials)
        ]
        return sorted(runs, key=lambda run: (run.rows, run.seed))

    def measure(self, run: Record) -> tuple[dict[str, Any], Transitions | None]:
        """Train, and run the controller at every snapshot of its training."""
        task, recorded = self.task, "demonstrations" in run.options
        online = run.method == "ddpg-online"
        rows = min(self.curves[0].sizes) if online else run.rows
        data = some_of(recorded_demonstrations(), rows, run.seed) if recorded else task.data(rows, run.seed)
        snapshots = train(run, task, data)
        returns = [task.mean_return(snapshot.controller, run.seed) for snapshot in snapshots]
        results: dict[str, Any] = {
            "evaluations": [
                {
                    "updates": snapshot.updates,
                    "transitions": snapshot.transitions,
                    "seconds": round(snapshot.seconds, 3),
                    "return": mean,
                }
                for snapshot, mean in zip(snapshots, returns, strict=True)
            ],
        }
        if self.unit == "demonstrations":
            assert data.episodes is not None
            lengths = data.episodes.unique(return_counts=True)[1].double()
            results["demonstrator"] = -float(lengths.mean())
            if not recorded and run.seed == 0:
                results["drives"] = _drives(task, data, snapshots[-1].controller)
        return results, None if online else data

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a table per source of data: a row per method and settings, a column per size."""
        lines: list[str] = []
        for source in sorted({_source(r) for r in records}):
            mine = [r for r in records if _source(r) == source]
            whose = f", demonstrations `{source}`" if source else ""
            nopg, rivals = ([r for r in mine if r.method.startswith("nopg") is own] for own in (True, False))
            for some in (nopg, rivals):
                if some:
                    lines += ["", f"Mean return by {self.unit}{whose}.", "", *self._table(some)]
        return lines

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say."""
        return self.to_findings(self, records)

    def draw(self, records: Sequence[Record]) -> Any:
        """Return the learning curves."""
        from studies.paper._learning_figure import draw_learning_curves

        return draw_learning_curves(records, self)

    def _table(self, records: Sequence[Record]) -> list[str]:
        sizes = sorted({r.rows for r in records})
        rows = []
        for method, label in LABELS.items():
            for mode in MODES:
                if mine := [r for r in records if r.method == method and mode_of(r) == mode]:
                    by_size = [[r for r in mine if r.rows == size] for size in sizes]
                    seconds = [statistics.fmean(r.cpu_seconds for r in some) for some in by_size if some]
                    spent = " to ".join(dict.fromkeys(f"{x:.0f}" for x in (seconds[0], seconds[-1])))
                    words = " (best on the way)" if method in BY_BEST else f", {MODE_WORDS[mode]}"
                    rows.append((label + words, *(self._cell(some) for some in by_size), spent))
            if papers := self.paper.get(method):
                known = [f"{papers[size]:.0f}" if size in papers else "" for size in sizes]
                rows.append((f"{label}, the paper", *known, ""))
        return table(["", *(f"{size}" for size in sizes), "CPU s"], rows)

    def _cell(self, records: Sequence[Record]) -> str:
        """Return the mean, half of its 95 % interval, and how many trials solved the task."""
        if not records:
            return ""
        returns = [score_of(r) for r in records]
        low, high = mean_interval(returns)
        solved = sum(x >= self.task.solved for x in returns)
        return f"{statistics.fmean(returns):.0f}±{(high - low) / 2:.0f} ({solved}/{len(returns)})"


def score_of(record: Record) -> float:
    """Return the score by the paper's rule: the last evaluation of NOPG, the best one of its rivals."""
    returns = [float(evaluation["return"]) for evaluation in record.results["evaluations"]]
    return max(returns) if record.method in BY_BEST else returns[-1]


def own_or_recorded(
    records: Sequence[Record], mode: Mode, method: str, *, recorded: bool = False
) -> list[Record]:
    """Return the records of a mode and method; by default those on data of our own."""
    return [r for r in records if mode_of(r) == mode and r.method == method and bool(_source(r)) == recorded]


def means_of(records: Sequence[Record]) -> dict[int, float]:
    """Return size → mean score."""
    return {
        size: statistics.fmean(score_of(r) for r in records if r.rows == size)
        for size in sorted({r.rows for r in records})
    }


def fewest_trials(records: Sequence[Record]) -> int:
    """Return the number of trials at the size that has the fewest; 0 without records."""
    return min(Counter(r.rows for r in records).values(), default=0)


def mean_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean."""
    x = np.asarray(scores, dtype=np.float64)
    if len(x) == 0 or not np.isfinite(x).all():
        raise ArgumentError(f"scores are {list(scores)}; give finite numbers, at least one")
    draws = torch.randint(len(x), (_RESAMPLES, len(x)), generator=generator(0, "bootstrap"))
    low, high = np.percentile(x[draws.numpy()].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def _source(record: Record) -> str:
    """Return the file of demonstrations, empty for data of our own."""
    return str(record.options.get("demonstrations", ""))


def _drives(task: Task, data: Transitions, controller: Any) -> dict[str, list[list[float]]]:
    """Return a demonstration, and what was learned from it, from the same start."""
    assert data.episodes is not None
    first = data.states[data.episodes == data.episodes[0]]
    run = simulate(
        task.plant, control_law(controller, data.schema), steps=task.steps, initial_states=first[:1]
    )
    learned = run.states[: int(run.alive[:, 0].sum()) + 1, 0]
    return {
        name: [[round(number, 5) for number in point] for point in path.tolist()]
        for name, path in (("demonstrated", first), ("learned", learned))
    }
