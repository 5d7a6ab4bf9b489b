"""Rewards as a column that is learned, against the same rewards as a formula: errors of predicted returns.

    python -m studies.known_reward --logs 0-4
    python -m studies.known_reward --plant corridor        (development)

The rows and the settings of the model are the same. For every log four given policies are evaluated: a linear
clone of the behaviour, the LQR of a linear fit, one of an engineer, and the mean of clone and engineer. The
truth is the mean return from the declared starts of the log on the plant.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from nopg import Transitions
from nopg.baselines import LinearQuadraticFit
from nopg.evaluation import OfflineEvaluator
from studies.calibration.plants.laws import Array, Law
from studies.logs.known_reward_plants import REWARD_PLANTS, RewardPlant
from studies.markdown import table
from studies.printing import note, say
from studies.records import FOLDER, Record, append, code_version, last_of_each, read
from studies.seeds import plants_and_seeds

__all__ = ["STUDY", "main", "page"]

STUDY = "known-reward"
_METHODS = ("learned", "formula")
_HEADS = ("plant", "logs", "policies", *_METHODS, "ratio", "spread")


def run_one(plant: RewardPlant, seed: int) -> list[Record]:
    """Return the records of one log: predictions with the reward learned and as a formula."""
    torch.set_num_threads(1)
    rows = plant.sizes[0]
    known = plant.data(rows, seed)
    learned = replace(known, schema=replace(known.schema, reward=None))
    policies = given_policies(plant, learned)
    truths = {name: plant.returns(_always(law), seed) for name, law in policies.items()}
    records = []
    for method, data in zip(_METHODS, (learned, known), strict=True):
        began = time.process_time()
        evaluator = OfflineEvaluator(data, plant.discount)
        found = {name: evaluator.assess(law) for name, law in policies.items()}
        seconds = time.process_time() - began
        results = {
            name: {
                "predicted": one.expected_return,
                "interval": one.interval,
                "verdict": one.verdict,
                "true": truths[name].discounted,
                "standard_error": truths[name].standard_error,
            }
            for name, one in found.items()
        }
        records.append(
            Record(
                study=STUDY,
                benchmark=plant.name,
                role=plant.role,
                method=method,
                rows=rows,
                seed=seed,
                commit=code_version("src/nopg"),
                cpu_seconds=round(seconds, 2),
                results=results,
            )
        )
    return records


def given_policies(plant: RewardPlant, data: Transitions) -> Mapping[str, Law]:
    """Return the policies to evaluate, by name, none of which depends on the way the reward is given."""
    clone, engineered = _clone(plant, data), plant.engineered
    policies: dict[str, Law] = {
        "clone": clone,
        "engineered": engineered,
        "mixture": lambda states: 0.5 * clone(states) + 0.5 * engineered(states),
    }
    fit = LinearQuadraticFit.of(data)
    regulator = fit.regulator(plant.discount) if fit else None
    if regulator is not None:
        gains = regulator
        policies["lqr"] = lambda states: np.clip(
            gains(torch.as_tensor(states)).numpy(), plant.low, plant.high
        )
    return {name: _on_arrays(law) for name, law in policies.items()}


def _on_arrays(law: Law) -> Law:
    """Return a policy of arrays that takes tensors too."""
    return lambda states: np.asarray(law(np.asarray(states)), dtype=np.float64)


def _clone(plant: RewardPlant, data: Transitions) -> Law:
    """Return the linear policy that is nearest to the logged actions."""
    states = np.column_stack([data.states.numpy(), np.ones(len(data))])
    gains = np.linalg.lstsq(states, data.actions.numpy(), rcond=None)[0]

    def act(measured: Array) -> Array:
        asked = np.column_stack([measured, np.ones(len(measured))]) @ gains
        return np.asarray(np.clip(asked, plant.low, plant.high))

    return act


def _always(law: Law) -> Callable[[int, np.random.Generator], Law]:
    return lambda episodes, rng: law


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    lines = [
        "# Known and learned rewards",
        "",
        "Made by `python -m studies page known-reward` from `results/studies/known-reward.jsonl`; do not",
        "edit. The same rows and settings, with the reward as a column that the model learns, and as a",
        "formula that it computes. The error is |predicted − true return|, mean over policies and logs;",
        "the spread of the true returns says how far the policies are apart. `corridor` is the development",
        "plant.",
        "",
        *table(_HEADS, _summary(records)),
        "",
        "The same without evaluations whose verdict, with the formula, is `not identifiable`: the policy",
        "leaves the data. This table was added after the results of `obstacle` had been seen.",
        "",
        *table(_HEADS, _summary([_identified(record, records) for record in records])),
        "",
        "Error by policy, mean over the logs:",
        "",
        *table(("plant", "policy", "true return", "learned", "formula"), _by_policy(records)),
    ]
    return "\n".join(lines) + "\n"


def _identified(record: Record, records: Sequence[Record]) -> Record:
    """Return a record with those policies that the evaluation with the formula does not refuse."""
    same = (record.benchmark, record.rows, record.seed)
    (judge,) = (
        one for one in records if one.method == "formula" and (one.benchmark, one.rows, one.seed) == same
    )
    kept = {
        name: one
        for name, one in record.results.items()
        if judge.results[name]["verdict"] != "not identifiable"
    }
    return replace(record, results=kept)


def _summary(records: Sequence[Record]) -> list[tuple[str, ...]]:
    rows = []
    for name in dict.fromkeys(record.benchmark for record in records):
        mine = [record for record in records if record.benchmark == name]
        errors = {method: np.mean(_errors(mine, method)) for method in _METHODS}
        logs = len({record.seed for record in mine})
        truths = [
            one["true"] for record in mine if record.method == "formula" for one in record.results.values()
        ]
        ratio = errors["formula"] / errors["learned"]
        values = (*(f"{errors[method]:.3g}" for method in _METHODS), f"{ratio:.2f}", f"{np.std(truths):.3g}")
        rows.append((name, str(logs), str(len(truths)), *values))
    return rows


def _by_policy(records: Sequence[Record]) -> list[tuple[str, ...]]:
    rows = []
    for name in dict.fromkeys(record.benchmark for record in records):
        mine = [record for record in records if record.benchmark == name]
        for policy in dict.fromkeys(policy for record in mine for policy in record.results):
            truth = np.mean([one.results[policy]["true"] for one in mine if policy in one.results])
            errors = [f"{np.mean(_errors(mine, method, policy)):.3g}" for method in _METHODS]
            rows.append((name, policy, f"{truth:.4g}", *errors))
    return rows


def _errors(records: Sequence[Record], method: str, policy: str | None = None) -> list[float]:
    return [
        abs(one["predicted"] - one["true"])
        for record in records
        if record.method == method
        for name, one in record.results.items()
        if policy in (None, name)
    ]


def main() -> None:
    """Make the runs without a record of this version and print the page."""
    warnings.simplefilter("ignore")
    version = code_version("src/nopg")
    done = {(one.benchmark, one.seed) for one in read(FOLDER, STUDY) if one.commit == version}
    for plant, seed in plants_and_seeds("known_reward", __doc__, REWARD_PLANTS, logs="0-4"):
        if (plant.name, seed) not in done:
            note(f"{plant.name}, log {seed}")
            for record in run_one(plant, seed):
                append(record, FOLDER)
    say(page(last_of_each(read(FOLDER, STUDY))))


if __name__ == "__main__":
    main()
