"""How far answers from data alone can be trusted: coverage of intervals, against rivals, by true returns.

    python -m evidence.offline_study coverage            # 6 tasks × 3 sizes × 100 datasets
    python -m evidence.offline_study policies            # 20 policies per task, six estimators
    python -m evidence.offline_study page                # docs/offline-evaluation.md from the records

A run that was stopped goes on where it was: every line of a record is one answer.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from evidence.offline_tasks import NUM_POLICIES, TASKS, OfflineTask, task
from nopg._seeding import generator
from nopg.baselines import fitted_q_evaluation, importance_sampling_return, resampled_return
from nopg.bellman import ControlProblem
from nopg.data import Transitions
from nopg.evaluation import ImaginedPlant, PolicyLaw, equation_answer
from nopg.graph import DEFAULT_PRIOR_MASS, NadarayaWatson

RECORDS = Path("results/offline")
SIZES, DATASETS = (150, 300, 600), 100
POLICY_SIZE, FITTED_UPDATES = 1_000, 5_000


def coverage(of: OfflineTask, size: int, seed: int) -> dict[str, Any]:
    """Return the raw numbers of one answer beside the truth; the policy goes round with the seed."""
    data, law = of.data(size, seed), of.policies[seed % NUM_POLICIES]
    began = time.process_time()
    plant = ImaginedPlant(data, of.discount)
    policy = PolicyLaw.of(law, data.schema)
    paths = plant.imagine(policy.mode)
    spent = time.process_time() - began
    by_part, lost = paths.returns.mean(dim=1), paths.unknown.mean(dim=1)
    by_start = paths.returns[0].view(plant.repeats, -1)
    return {
        "task": of.name,
        "size": size,
        "seed": seed,
        "truth": of.truth(law, data.starts),
        "return": float(by_part[0]),
        "halves": [round(float(value), 6) for value in by_part[1:]],
        "chance": float((by_start.var(dim=0).mean() / by_start.numel()).sqrt()),
        "tail": paths.tail,
        "leverage": paths.leverage,
        "unknown": float(lost[0]),
        "unknown_of_halves": float(lost[1:].max()),
        "pessimistic": float(paths.pessimistic[0].mean()),
        "logged_spread": float(data.rewards.std()) / (1.0 - of.discount),
        "cpu_seconds": round(spent, 2),
        **_equation(plant, policy, data, of.discount),
    }


def _equation(
    plant: ImaginedPlant, policy: PolicyLaw, data: Transitions, discount: float
) -> dict[str, float]:
    """Return what the paper's equation says."""
    model = NadarayaWatson(data, plant.bandwidths, prior_mass=DEFAULT_PRIOR_MASS)
    problem = ControlProblem.build(model, data.schema.encode(data.starts), discount=discount)
    answer = equation_answer(problem.equation(policy, generator(0, "study")).solve())
    return {
        "equation": answer.expected_return,
        "equation_error": answer.standard_error,
        "robust": answer.doubly_robust,
        "robust_error": answer.doubly_robust_error,
        "equation_unknown": answer.unknown_mass,
        "effective_samples": answer.effective_samples,
    }


def policies(of: OfflineTask, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what every estimator says of each of the twenty policies, from one dataset."""
    data = of.data(POLICY_SIZE, seed)
    plant = ImaginedPlant(data, of.discount)
    model = NadarayaWatson(data, plant.bandwidths, prior_mass=DEFAULT_PRIOR_MASS)
    problem = ControlProblem.build(model, data.schema.encode(data.starts), discount=of.discount)
    behavior = torch.as_tensor(of.behavior(data.states))
    for number, law in enumerate(of.policies):
        policy = PolicyLaw.of(law, data.schema)
        paths = plant.imagine(policy.mode)
        answer = equation_answer(problem.equation(policy, generator(0, "study")).solve())
        wanted = policy.mode(data.features)
        ratios = _log_normal(data.actions, wanted, of.noise / 2) - _log_normal(
            data.actions, behavior, of.noise
        )
        mine = paths.returns.mean(dim=1)
        yield {
            "task": of.name,
            "size": POLICY_SIZE,
            "seed": seed,
            "policy": number,
            "truth": of.truth(law, data.starts),
            "unknown": float(paths.unknown[0].mean()),
            "error": float((mine[1:] - mine[0]).square().mean().sqrt()),
            "estimates": {
                "imagined paths": float(mine[0]),
                "equation": answer.expected_return,
                "equation, doubly robust": answer.doubly_robust,
                "FQE": fitted_q_evaluation(
                    policy.law,
                    data,
                    discount=of.discount,
                    updates=FITTED_UPDATES,
                    seed=seed,
                    hidden_units=(64, 64),
                ).expected_return,
                "importance sampling": importance_sampling_return(data, ratios, discount=of.discount),
                "k-NN resampling": resampled_return(
                    policy.mode, data, plant.bandwidths, discount=of.discount, seed=seed
                ),
            },
        }


def _log_normal(actions: torch.Tensor, mean: torch.Tensor, std: float) -> torch.Tensor:
    """Return the log density (n,) of a normal distribution around the mean."""
    return (-0.5 * ((actions - mean) / std).square() - math.log(std)).sum(dim=1)


def read(name: str) -> list[dict[str, Any]]:
    """Return the lines of a record."""
    rows = []
    for path in sorted(RECORDS.glob(f"{name}-*.jsonl")):
        rows += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return rows


def run_coverage(names: list[str], datasets: int) -> Iterator[dict[str, Any]]:
    """Answer what has not been answered yet, and write it down."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    done = {(row["task"], row["size"], row["seed"]) for row in read("coverage")}
    for seed in range(datasets):
        for name in names:
            for size in SIZES:
                if (name, size, seed) in done:
                    continue
                row = coverage(task(name), size, seed)
                with (RECORDS / f"coverage-{name}.jsonl").open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(row) + "\n")
                yield row


def run_policies(names: list[str], datasets: int) -> Iterator[dict[str, Any]]:
    """Judge what has not been judged yet, a dataset at a time."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    done = {(row["task"], row["seed"]) for row in read("policies")}
    for seed in range(datasets):
        for name in names:
            if (name, seed) in done:
                continue
            rows = list(policies(task(name), seed))
            with (RECORDS / f"policies-{name}.jsonl").open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
            yield from rows


def main() -> None:
    """Run a study, or draw its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("coverage", "policies"))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--datasets", type=int, help="100 for coverage, 1 for policies")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run, most = (run_coverage, DATASETS) if options.study == "coverage" else (run_policies, 1)
    for row in run(options.tasks, options.datasets or most):
        print(json.dumps({key: row[key] for key in row if key not in {"halves", "estimates"}}), flush=True)


if __name__ == "__main__":
    main()
