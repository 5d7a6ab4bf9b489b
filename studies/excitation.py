"""Logs under exactly linear feedback, and under the test signal that `describe` advises for them.

Development plants. For every log a policy with higher gains than the feedback is evaluated, and on the first
logs one is trained: without a test signal no verdict may be `ok`, with the advised one it should be.

    python -m studies.excitation --logs 10 --trained 2
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import nopg
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.inspect._excitation import ActionExcitation
from studies.calibration.plants import PLANTS
from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import Plant, random_generator
from studies.printing import say
from studies.records import FOLDER, Record, append, code_version, read

__all__ = ["STUDY", "main", "page"]

STUDY = "excitation"
ROWS, _STEPS, _DISCOUNT = (300, 2_000), 50, 0.95
# Factor by which actions are cheaper for the given policy than for the feedback.
_EAGER = 2.0
_TRUE_EPISODES, _TRUE_STEPS = 400, 200


def _plants() -> tuple[Plant, ...]:
    """Return a double integrator, a cart-pole, two tanks and a reactor with noise of the plant alone."""
    named = {name: plant for name, (plant, role) in PLANTS.items() if role == "development"}
    return (
        replace(named["positioning-table"], process_noise=(0.002, 0.01)),
        named["pole-on-a-cart"],
        named["tanks-in-series"],
        replace(named["exothermic-reactor"], sensor_noise=(), process_noise=(0.002, 0.1)),
    )


def _log(plant: Plant, rows: int, seed: int, sizes: Array) -> nopg.Transitions:
    """Return a log under linear feedback with uniform steps of these sizes added to the actions."""
    rng = random_generator(seed, f"exact feedback of {plant.name}, {rows}")
    episodes = math.ceil(rows / _STEPS)
    law = plant.law(plant.gain(plant.softness))

    def act(states: Array) -> Array:
        return law(states) + sizes * rng.uniform(-1.0, 1.0, (len(states), len(sizes)))

    runs = plant.run(act, plant.starts(2 * episodes, rng), _STEPS, rng)
    return plant.transitions(runs, rows)


def _truth(plant: Plant, policy: Any, starts: Array) -> float:
    rng = random_generator(0, f"truth of {plant.name}")
    repeats = math.ceil(_TRUE_EPISODES / len(starts))
    returns = plant.run(policy, np.tile(starts, (repeats, 1)), _TRUE_STEPS, rng).rewards
    return float((_DISCOUNT ** np.arange(_TRUE_STEPS) @ returns).mean())


@dataclass(frozen=True, slots=True)
class _Log:
    """A log with where it comes from."""

    plant: Plant
    rows: int
    seed: int
    signal: str
    data: nopg.Transitions

    def record(self, kind: str, found: Assessment, policy: Any, *, began: float) -> Record:
        """Return the record of an evaluation; the truth is simulated from the starts of the log."""
        names = ("expected_return", "interval", "standard_error", "unknown_mass", "verdict", "reasons")
        seconds = time.process_time() - began
        return Record(
            study=STUDY,
            benchmark=self.plant.name,
            method=f"{kind}, {self.signal}",
            rows=self.rows,
            seed=self.seed,
            role="development",
            commit=code_version("src/nopg"),
            cpu_seconds=round(seconds, 2),
            discounted=_truth(self.plant, policy, self.data.starts.numpy()),
            summary={name: getattr(found, name) for name in names},
        )


def _runs(plant: Plant, rows: int, seed: int, *, trained: bool) -> Iterator[Record]:
    exact = _log(plant, rows, seed, np.zeros(len(plant.actions)))
    advised = np.array([one.size for one in ActionExcitation.of(exact)])
    for signal, sizes in (("none", np.zeros(len(advised))), ("advised", advised)):
        log = _Log(plant, rows, seed, signal, _log(plant, rows, seed, sizes))
        began = time.process_time()
        policy: Any = plant.law(plant.gain(plant.softness / _EAGER))
        found = OfflineEvaluator(log.data, _DISCOUNT).assess(policy)
        yield log.record("given", found, policy, began=began)
        if trained:
            began = time.process_time()
            config = nopg.TrainingConfig(seed=seed, progress=False)
            result = nopg.optimize(log.data, _DISCOUNT, config=config)
            assert result.evaluation is not None
            yield log.record("trained", result.evaluation, result.policy, began=began)


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    lines = [
        "# Logs under exact feedback",
        "",
        "Made by `python -m studies page excitation` from `results/studies/excitation.jsonl`; do not edit.",
        "Development plants of the calibration study: a double integrator, a cart-pole, two tanks and a",
        "reactor, all with noise of the plant. The log comes from a controller that is exactly linear in the",
        "state. `given` is the evaluation of one with higher gains, `trained` that of what `optimize` makes",
        "of the log. `advised` adds the steps that `describe` advises for the log without them.",
        "",
        "| policy, test signal | plant | rows | logs | `ok` | weak | not identifiable | `ok` and true |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = dict[tuple[str, str, int], list[Record]]()
    for record in records:
        groups.setdefault((record.method, record.benchmark, record.rows), []).append(record)
    for (method, name, rows), found in sorted(groups.items()):
        said = [record.summary["verdict"] for record in found]
        fine = [record for record in found if record.summary["verdict"] == "ok"]
        inside = sum(low <= one.discounted <= high for one in fine for low, high in [one.summary["interval"]])
        counts = " | ".join(str(said.count(verdict)) for verdict in ("ok", "weak", "not identifiable"))
        lines.append(f"| {method} | {name} | {rows} | {len(found)} | {counts} | {inside} of {len(fine)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the runs without a record and print them."""
    parser = argparse.ArgumentParser(prog="python -m studies.excitation", description=__doc__)
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--trained", type=int, default=2, help="logs of each plant and size to train on")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    version = code_version("src/nopg")
    done = {(one.benchmark, one.rows, one.seed) for one in read(FOLDER, STUDY) if one.commit == version}
    for seed in range(options.logs):
        for plant in _plants():
            for rows in ROWS:
                if (plant.name, rows, seed) in done:
                    continue
                for record in _runs(plant, rows, seed, trained=seed < options.trained):
                    append(record, FOLDER)
                    low, high = record.summary["interval"]
                    say(
                        f"{plant.name} {rows} log {seed} {record.method}: {record.summary['verdict']}, "
                        f"[{low:.4g}, {high:.4g}], true {record.discounted:.4g}"
                    )


if __name__ == "__main__":
    main()
