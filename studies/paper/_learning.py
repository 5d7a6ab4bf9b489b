"""Learning studies: methods on data of growing size, ten trials each, run on the true plant."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nopg.envs import simulate
from nopg.errors import ArgumentError
from nopg.evaluation import Evaluation, control_law
from nopg.training import TrainingResult
from studies.markdown import table
from studies.paper._experiment import (
    MODE_WORDS,
    MODES,
    Choice,
    Experiment,
    Finding,
    Measurement,
    Mode,
    Trial,
    mode_of,
)
from studies.paper._methods import FAITHFUL, METHODS, PAPER, Method
from studies.paper._scores import summarize
from studies.paper._tasks import DemonstrationTask, Task
from studies.records import Record

__all__ = ["BY_BEST", "Curve", "LearningStudy", "last_return", "score_of"]

# As in the paper: of NOPG the last controller counts.
BY_BEST = ("pwis", "ddpg-offline", "ddpg-online")
_QUICK_UPDATES, _QUICK_STEPS = 20, 1_000


@dataclass(frozen=True, slots=True)
class Curve:
    """One method over sizes of data.

    Attributes:
        method: Its name.
        sizes: Of the data; of an online method its steps, of which the curve is made.
        trials: Seeds at each size.
        mode: Whose settings.
    """

    method: str
    sizes: tuple[int, ...]
    trials: int = 10
    mode: Mode = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStudy(Experiment):
    """Methods on one task.

    Attributes:
        task: The task.
        curves: What is run.
        quick_size: Of the data, when cut short.
        paper: The paper's mean returns by method and size, where it prints them.
        to_findings: Turns records into findings.
        unit: What sizes count.
        by_best: Methods that count by their best controller on the way, as in the paper; others by the last.
    """

    task: Task
    curves: tuple[Curve, ...]
    quick_size: int
    to_findings: Callable[[LearningStudy, Sequence[Record]], list[Finding]]
    paper: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    unit: str = "transitions"
    by_best: tuple[str, ...] = BY_BEST

    def plan(self, choice: Choice) -> list[Trial]:
        """Return the trials, small data first."""
        task = self._task(choice.demonstrations)
        source = None
        if isinstance(task, DemonstrationTask):
            source = task.demonstrations
            task.all_demonstrations()  # a file that cannot be read is better known now
        mine = [curve for curve in self.curves if curve.mode in choice.modes]
        methods = self.chosen_methods(choice, sorted({curve.method for curve in self.curves}))
        mine = [curve for curve in mine if curve.method in methods]
        if choice.quick:
            mine = [replace(curve, sizes=(self._quick_size(curve),), trials=1) for curve in mine]
        trials = [
            Trial(self.name, curve.mode, curve.method, size, seed, choice.quick, source)
            for curve in mine
            for size in (curve.sizes if choice.sizes is None else choice.sizes)
            for seed in range(curve.trials if choice.trials is None else choice.trials)
        ]
        return sorted(trials, key=lambda trial: (trial.size, trial.seed))

    def measure(self, trial: Trial) -> Measurement:
        """Train, and run the controller at every snapshot of its training."""
        task, method = self._task(trial.demonstrations), self._method(trial)
        online = method.needs == "simulator"
        updates = task.recipe.updates if trial.mode == "faithful" else method.updates
        if trial.quick:
            updates = _QUICK_UPDATES
        if online:
            updates = trial.size
        data = task.data(self.quick_size if online else trial.size, trial.seed)
        snapshots = method.train(task, data, trial.seed, updates)
        runs = [task.evaluate(snapshot.controller, trial.seed) for snapshot in snapshots]
        evaluations = [
            {
                "updates": snapshot.updates,
                "transitions": snapshot.transitions,
                "seconds": round(snapshot.seconds, 3),
                "return": run.mean,
            }
            for snapshot, run in zip(snapshots, runs, strict=True)
        ]
        results: dict[str, Any] = {"evaluations": evaluations, **_last_run(runs[-1], task)}
        result = snapshots[-1].model
        if isinstance(result, TrainingResult):
            results |= {
                "predicted": result.expected_return,
                "start_unknown": result.start_unknown,
                "unknown_mass": result.unknown_mass,
                "model": result.problem.settings()["name"],
                "interval": result.interval,
                "verdict": result.verdict,
            }
        if isinstance(task, DemonstrationTask):
            results |= self._demonstrator_results(task, trial, data, snapshots[-1].controller)
        return Measurement(results, None if online else data, self._config(task, method, updates))

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return a table per source of data: a row per method and settings, a column per size."""
        lines: list[str] = []
        for source, title in self._sources(records):
            mine = [r for r in records if _source(r) == source]
            nopg, rivals = ([r for r in mine if r.method.startswith("nopg") is own] for own in (True, False))
            for some in (nopg, rivals):
                if some:
                    lines += ["", f"Mean return by {self.unit}{title}.", "", *self._table(some)]
        return lines

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say."""
        return self.to_findings(self, records)

    def _table(self, records: Sequence[Record]) -> list[str]:
        sizes = sorted({r.rows for r in records})
        rows = []
        for method in METHODS:
            for mode in MODES:
                if mine := [r for r in records if r.method == method and mode_of(r) == mode]:
                    by_size = [[r for r in mine if r.rows == size] for size in sizes]
                    seconds = [statistics.fmean(r.cpu_seconds for r in some) for some in by_size if some]
                    spent = " to ".join(dict.fromkeys(f"{x:.0f}" for x in (seconds[0], seconds[-1])))
                    words = METHODS[method].label + (_BEST if method in BY_BEST else f", {MODE_WORDS[mode]}")
                    rows.append((words, *(self._cell(some) for some in by_size), spent))
            if papers := self.paper.get(method):
                known = [f"{papers[size]:.0f}" if size in papers else "" for size in sizes]
                rows.append((f"{METHODS[method].label}, the paper", *known, ""))
        return table(["", *(f"{size}" for size in sizes), "CPU s"], rows)

    def _cell(self, records: Sequence[Record]) -> str:
        """Return the mean, half of its 95 % interval, and how many trials solved the task."""
        if not records:
            return ""
        returns = [score_of(r) for r in records]
        low, high = summarize(returns).mean_interval
        solved = sum(x >= self.task.solved for x in returns)
        return f"{statistics.fmean(returns):.0f}±{(high - low) / 2:.0f} ({solved}/{len(returns)})"

    def _sources(self, records: Sequence[Record]) -> list[tuple[str | None, str]]:
        found = sorted({_source(r) for r in records}, key=lambda name: (name is not None, name))
        return [(name, "" if name is None else f", demonstrations `{name}`") for name in found]

    def _quick_size(self, curve: Curve) -> int:
        return _QUICK_STEPS if METHODS[curve.method].needs == "simulator" else self.quick_size

    def _method(self, trial: Trial) -> Method:
        return {"ours": METHODS, "paper": PAPER, "faithful": FAITHFUL}[trial.mode][trial.method]

    def _task(self, demonstrations: str | None) -> Task:
        if demonstrations is None:
            return self.task
        if not isinstance(self.task, DemonstrationTask):
            raise ArgumentError(f"{self.name} does not learn from demonstrations; leave the file out")
        return replace(self.task, demonstrations=demonstrations)

    def _config(self, task: Task, method: Method, updates: int) -> dict[str, Any]:
        source = task.demonstrations if isinstance(task, DemonstrationTask) else None
        return {
            "task": task.name,
            "discount": task.discount,
            "steps": task.steps,
            "episodes": task.episodes,
            "updates": updates,
            "settings": method.source,
            "recipe": dataclasses.asdict(task.recipe),
            "demonstrations": None if source is None else source.rsplit("/", 1)[-1],
        }

    def _demonstrator_results(
        self, task: DemonstrationTask, trial: Trial, data: Any, controller: Any
    ) -> dict[str, Any]:
        """Return what the demonstrations returned, and of our own ones a drive beside theirs."""
        lengths = data.episodes.unique(return_counts=True)[1].double()
        results: dict[str, Any] = {"demonstrator": -float(lengths.mean())}
        if task.demonstrations is None and trial.seed == 0:
            first = data.episodes == data.episodes[0]
            law = control_law(controller, data.schema)
            run = simulate(task.plant, law, steps=task.steps, initial_states=data.states[first][:1])
            alive = int(run.alive[:, 0].sum())
            results["drives"] = {
                "demonstrated": _rounded(data.states[first].tolist()),
                "learned": _rounded(run.states[: alive + 1, 0].tolist()),
            }
        return results


_BEST = " (best on the way)"


def last_return(record: Record) -> float:
    """Return what the last controller returned: what a user gets."""
    value: float = record.results["evaluations"][-1]["return"]
    return value


def score_of(record: Record) -> float:
    """Return the score by the paper's rule: the last evaluation of NOPG, the best one of its rivals."""
    if record.method in BY_BEST:
        return float(max(evaluation["return"] for evaluation in record.results["evaluations"]))
    return last_return(record)


def _last_run(run: Evaluation, task: Task) -> dict[str, Any]:
    return {"returns": run.returns.tolist(), "discounted": run.discounted(task.discount)}


def _source(record: Record) -> str | None:
    return record.options.get("demonstrations")


def _rounded(path: list[list[float]]) -> list[list[float]]:
    return [[round(number, 5) for number in point] for point in path]
