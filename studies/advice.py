"""Rows on the plant until a verdict is `ok`: experiments that `nopg.advise` chooses, against random ones.

Development plants. A short log does not give `ok` for a given good policy. In each round 25 rows of an
experiment on the simulated plant are added, until the verdict is `ok` or 1 000 rows were added.

    python -m studies.advice --logs 5
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import nopg
from nopg.advice._simulation import append as append_rows
from nopg.evaluation import Assessment
from studies.calibration.plants import PLANTS
from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant, horizon, random_generator
from studies.printing import say
from studies.records import FOLDER, Record, append, code_version, read

__all__ = ["STUDY", "main", "page"]

STUDY = "advice"
# Plants with the controllers of their logs.
_PLANTS = {"noisy-positioning-table": "feedback", "tanks-in-series": "pi", "exothermic-reactor": "pi"}
_METHODS = ("advised", "drawn", "random")
_LOG_ROWS, _STEPS, _DISCOUNT = 200, 25, 0.95
_ROUND, _MOST_ROWS = 25, 1_000
# Experiments may go this far from the middle of the starts, in half-widths of their range.
_REACH = 2.0
_TRUE_EPISODES, _LOGS = 400, 5

Control = Callable[[Any], Any]


def _state_bounds(plant: Plant) -> dict[str, tuple[float, float]]:
    """Return twice the range of the starts, of every state."""
    low, high = np.array(plant.start_low), np.array(plant.start_high)
    middle, half = (low + high) / 2, _REACH * (high - low) / 2
    columns = zip(plant.states, middle - half, middle + half, strict=True)
    return {name: (float(a), float(b)) for name, a, b in columns}


def _within(plant: Plant, states: Array) -> npt.NDArray[np.bool_]:
    low, high = np.array(list(_state_bounds(plant).values())).T
    return np.asarray(((states >= low) & (states <= high)).all(axis=-1))


def _log(plant: Plant, seed: int) -> nopg.Transitions:
    rng = random_generator(seed, f"log for advice on {plant.name}")
    episodes = math.ceil(_LOG_ROWS / _STEPS)
    law = plant.behaviour(_PLANTS[plant.name])(episodes, rng)
    return plant.transitions(plant.run(law, plant.starts(episodes, rng), _STEPS, rng), _LOG_ROWS)


def _measure(plant: Plant, law: Control, starts: Array, rng: np.random.Generator) -> nopg.Transitions | None:
    """Return rows of an experiment; an episode is stopped after the row that leaves the bounds."""
    runs = plant.run(law, starts, _STEPS, rng)
    within = _within(plant, runs.measured[:-1])
    alive = runs.alive & np.logical_and.accumulate(within, axis=0)
    return plant.transitions(replace(runs, alive=alive), _ROUND) if alive.any() else None


def _round(
    plant: Plant, experiment: Callable[[int], tuple[Control, Array]], rng: np.random.Generator
) -> nopg.Transitions:
    """Return 25 rows of an experiment, repeated while its episodes are stopped early."""
    found: nopg.Transitions | None = None
    for repeat in range(50):
        law, starts = experiment(repeat)
        new = _measure(plant, law, starts, rng)
        if new is not None:
            found = new if found is None else append_rows(found, new)
        if found is not None and len(found) >= _ROUND:
            return found.take(torch.arange(_ROUND))
    raise RuntimeError(f"an experiment on {plant.name} gives no {_ROUND} rows")


def _random(plant: Plant, rng: np.random.Generator) -> tuple[Control, Array]:
    """Return uniform random actions in every row, and random starts of the plant."""

    def law(states: Array) -> Array:
        return rng.uniform(plant.action_low, plant.action_high, (len(states), len(plant.actions)))

    return law, plant.starts(_ROUND // _STEPS, rng)


@dataclass(frozen=True, slots=True)
class _Case:
    """A log of a plant and the policy to be judged."""

    plant: Plant
    seed: int
    log: nopg.Transitions

    @property
    def policy(self) -> Any:
        """The controller with gains that are optimal for small deviations."""
        return self.plant.law(self.plant.gain())

    def judge(self, data: nopg.Transitions) -> Assessment:
        """Return the evaluation of the policy from the starts of the log."""
        return nopg.evaluate_offline(self.policy, data.starting_at(self.log.starts), _DISCOUNT)

    def advised(self, data: nopg.Transitions, number: int, *, drawn: bool) -> tuple[str, nopg.Transitions]:
        """Return the best experiment by the advice, or one drawn of all, in words, and its rows."""
        plant, rng = self.plant, random_generator(self.seed, f"advised rows {number} of {self.plant.name}")
        bounds = _state_bounds(plant)
        seed = 1_000 * self.seed + number
        advice = nopg.advise(data, self.policy, _DISCOUNT, bounds=bounds, rows=_ROUND, seed=seed)
        fit = [one for one in advice.experiments if not one.too_far]
        best = fit[int(rng.integers(len(fit)))] if drawn and fit else advice.best

        def experiment(repeat: int) -> tuple[Control, Array]:
            starts = best.initial_states.numpy()
            if best.starts == "usual":
                starts = plant.starts(len(starts), rng)
            today = plant.behaviour(_PLANTS[plant.name])(len(starts), rng)
            bases = {"the policy": self.policy, "today's controller": today, "a constant action": None}
            act = best.controller(bases[best.base], seed=100 * number + repeat)
            return (lambda states: act(states).numpy()), starts

        return str(best), _round(plant, experiment, rng)

    def random(self, number: int) -> tuple[str, nopg.Transitions]:
        """Return rows of a random experiment."""
        rng = random_generator(self.seed, f"random rows {number} of {self.plant.name}")
        return "random", _round(self.plant, lambda _: _random(self.plant, rng), rng)

    def truth(self) -> float:
        """Return the true return from the starts of the log."""
        starts = self.log.starts.numpy()
        steps, rng = horizon(_DISCOUNT), random_generator(0, f"truth of {self.plant.name}")
        repeated = np.tile(starts, (math.ceil(_TRUE_EPISODES / len(starts)), 1))
        rewards = self.plant.run(self.policy, repeated, steps, rng).rewards
        return float((_DISCOUNT ** np.arange(steps) @ rewards).mean())

    def record(self, method: str, first: Assessment) -> Record:
        """Return the record of all rounds of one method."""
        began, data, found = time.process_time(), self.log, first
        chosen, verdicts = list[str](), [first.verdict]
        while found.verdict != "ok" and len(data) - _LOG_ROWS < _MOST_ROWS:
            number = len(chosen)
            if method == "random":
                words, new = self.random(number)
            else:
                words, new = self.advised(data, number, drawn=method == "drawn")
            data = append_rows(data, new)
            found = self.judge(data)
            chosen.append(words)
            verdicts.append(found.verdict)
        names = ("expected_return", "interval", "standard_error", "unknown_mass", "verdict", "reasons")
        return Record(
            study=STUDY,
            benchmark=self.plant.name,
            method=method,
            rows=_LOG_ROWS,
            seed=self.seed,
            role="development",
            commit=code_version("src/nopg", "studies/advice.py"),
            cpu_seconds=round(time.process_time() - began, 1),
            discounted=self.truth(),
            summary={name: getattr(found, name) for name in names},
            results={
                "added": len(data) - _LOG_ROWS,
                "experiments": chosen,
                "verdicts": verdicts,
                "reward": float(data.rewards[_LOG_ROWS:].mean()),
                "reward_of_log": float(self.log.rewards.mean()),
                "rows_outside": int((~_within(self.plant, data.next_states[_LOG_ROWS:].numpy())).sum()),
            },
        )


def _cases(plant: Plant) -> Any:
    """Yield logs that do not give `ok`, each with its evaluation."""
    for seed in range(1_000):
        case = _Case(plant, seed, _log(plant, seed))
        first = case.judge(case.log)
        if first.verdict != "ok":
            yield case, first


def _rows_needed(records: Sequence[Record]) -> list[float]:
    """Return the rows added by each run; infinitely many where `ok` was never reached."""
    return [
        float(one.results["added"]) if one.summary["verdict"] == "ok" else math.inf
        for one in sorted(records, key=lambda one: one.seed)
    ]


def _line(plant: str, method: str, found: Sequence[Record]) -> str:
    needed = _rows_needed(found)
    fine = [one for one in found if one.summary["verdict"] == "ok"]
    inside = sum(low <= one.true_return <= high for one in fine for low, high in [one.summary["interval"]])
    each = ", ".join(_number(rows) for rows in needed)
    stops = (
        _ROUND
        * sum(one.results["rows_outside"] for one in found)
        / sum(one.results["added"] for one in found)
    )
    reward, usual = (
        statistics.mean(one.results[name] for one in found) for name in ("reward", "reward_of_log")
    )
    return (
        f"| {plant} | {method} | {len(found)} | {_number(statistics.median(needed))} | "
        f"{len(found) - len(fine)} | {inside} of {len(fine)} | {stops:.1f} | "
        f"{reward:.3g} ({usual:.3g}) | {each} |"
    )


def _number(rows: float) -> str:
    return f"{rows:g}" if math.isfinite(rows) else "never"


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    lines = [
        "# Rows until a verdict is `ok`",
        "",
        "Made by `python -m studies page advice` from `results/studies/advice.jsonl`; do not edit.",
        "**Development plants** of the calibration study: `nopg.advise` was developed on them, so these",
        "figures show what it does there and are no test on new plants. Sizes and kind of the test signals,",
        "and that today's controller comes first while a policy is not identifiable, were chosen on them.",
        "",
        f"A log of {_LOG_ROWS} rows ({_LOG_ROWS // _STEPS} episodes of {_STEPS}) under the plant's own",
        "controller does not give `ok` for a linear controller with gains that are optimal for small",
        f"deviations (γ {_DISCOUNT:g}). Each round adds {_ROUND} rows from the simulated plant. *advised*",
        "runs the best experiment of `nopg.advise`, *drawn* one of those that it compares and expects to",
        "keep the bounds, each as likely as the others. *random* draws uniform actions in every row, from",
        "random starts of the task. All keep the bounds of the actions, and an episode is stopped when a",
        "state leaves twice the range of the starts. A run that has not reached `ok` after",
        f"{_MOST_ROWS} rows counts as never. *`ok` and true*: the true return lies in the last interval.",
        "*stops*: episodes stopped at the bounds in 100 rows. *reward*: mean of a row of the experiments, in",
        "parentheses that of the log. *rows*: rows added, log by log.",
        "",
        "| plant | experiments | logs | rows, median | never `ok` | `ok` and true | stops | reward | rows |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups = dict[tuple[str, str], list[Record]]()
    for record in records:
        groups.setdefault((record.benchmark, record.method), []).append(record)
    lines += [_line(*key, found) for key, found in groups.items()]
    if min(map(len, groups.values())) < _LOGS:
        lines += [
            "",
            f"{_LOGS} logs of each plant are planned; the run was stopped before, for want of time.",
        ]
    lines += ["", "The aim is half the rows of random experiments or fewer, in the median:", ""]
    for plant in dict.fromkeys(name for name, _ in groups):
        a, *others = (statistics.median(_rows_needed(groups[plant, method])) for method in _METHODS)
        compared = " and ".join(
            f"{_number(r)} of {method} ones ({'met' if a <= r / 2 and math.isfinite(a) else '**missed**'})"
            for method, r in zip(_METHODS[1:], others, strict=True)
        )
        lines.append(f"- {plant}: {_number(a)} rows against {compared}.")
    log_by_log = [line for method in _METHODS[1:] for line in _log_by_log(records, method)]
    return "\n".join([*lines, "", *log_by_log, "", *_choices(records)]) + "\n"


def _log_by_log(records: Sequence[Record], other: str) -> list[str]:
    """Return how often the advice took fewer rows or more than other experiments on the same log."""
    rows: dict[str, dict[tuple[str, int], float]] = {method: {} for method in _METHODS}
    for one in records:
        rows[one.method][one.benchmark, one.seed] = _rows_needed([one])[0]
    pairs = [(found, rows[other][key]) for key, found in rows["advised"].items() if key in rows[other]]
    more, fewer = sum(a > r for a, r in pairs), sum(a < r for a, r in pairs)
    longer = [(a, r) for a, r in pairs if r > _ROUND]
    half = sum(a <= r / 2 for a, r in longer)
    return [
        f"Over all {len(pairs)} logs the advice took more rows than {other} experiments on {more} and fewer",
        f"on {fewer}. These reached `ok` in their first round on {len(pairs) - len(longer)} logs, where half",
        f"is out of reach, as a round has {_ROUND} rows; on the other {len(longer)} the advice took half or",
        f"fewer on {half}.",
    ]


def _choices(records: Sequence[Record]) -> list[str]:
    """Return a table of the experiments that were advised."""
    counts = dict[tuple[str, str], int]()
    for one in records:
        for words in one.results["experiments"] if one.method == "advised" else ():
            counts[one.benchmark, words] = counts.get((one.benchmark, words), 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[1]))
    rows = [f"| {plant} | {words} | {count} |" for (plant, words), count in ordered]
    return ["| plant | advised experiment | rounds |", "|---|---|---|", *rows]


def main() -> None:
    """Make the runs without a record and print them."""
    parser = argparse.ArgumentParser(prog="python -m studies.advice", description=__doc__)
    parser.add_argument("--logs", type=int, default=_LOGS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    version = code_version("src/nopg", "studies/advice.py")
    done = {(one.benchmark, one.method, one.seed) for one in read(FOLDER, STUDY) if one.commit == version}
    cases = {name: _cases(PLANTS[name][0]) for name in _PLANTS}
    for _ in range(options.logs):
        for name in _PLANTS:
            case, first = next(cases[name])
            for method in _METHODS:
                if (name, method, case.seed) in done:
                    continue
                record = case.record(method, first)
                append(record, FOLDER)
                said = f"{record.summary['verdict']} after {record.results['added']} rows"
                say(f"{name} log {case.seed} {method}: {said}, {record.cpu_seconds:g} CPU s")


if __name__ == "__main__":
    main()
