"""How far answers from data alone can be trusted: coverage of intervals, against rivals, by true returns.

    python -m evidence.offline_study coverage            # 6 tasks × 3 sizes × 100 datasets
    python -m evidence.offline_study policies            # 20 policies per task, six estimators
    python -m evidence.offline_study risks               # 10 policies per task, one region each
    python -m evidence.offline_study cost                # an interval and a bootstrap against a solve
    python -m evidence.offline_page                      # docs/offline-evaluation.md from the records

A run that was stopped goes on where it was: every line of a record is one answer.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from evidence.offline_tasks import NUM_POLICIES, TASKS, OfflineTask, task
from nopg._seeding import generator
from nopg.bandwidths import select_bandwidths
from nopg.baselines import fitted_q_evaluation, importance_sampling_return, resampled_return
from nopg.bellman import BellmanSolution, ControlProblem
from nopg.data import Transitions
from nopg.evaluation import (
    EquationAnswer,
    ImaginedPlant,
    OfflineEvaluator,
    PolicyLaw,
    bootstrap_returns,
    equation_answer,
)
from nopg.graph import DEFAULT_PRIOR_MASS, NadarayaWatson, SparseRows

RECORDS = Path("results/offline")
SIZES, DATASETS = (150, 300, 600), 100
POLICY_SIZE, FITTED_UPDATES = 1_000, 5_000
RISK_SIZE, RISK_STEPS, RISK_POLICIES = 600, 50, 10
COST_SIZES = (500, 2_000, 6_000)


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
        "range": plant.return_range,
        "episodes": int(plant.groups.max()) + 1,
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


def risks(of: OfflineTask, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the bounds of the probability of danger beside the truth."""
    data = of.data(RISK_SIZE, seed)
    evaluator = OfflineEvaluator(data, of.discount)
    for number, law in enumerate(of.policies[:RISK_POLICIES]):
        risk = evaluator.risk(law, of.danger, RISK_STEPS)
        yield {
            "task": of.name,
            "size": RISK_SIZE,
            "seed": seed,
            "policy": number,
            "truth": of.entered(law, data.starts, RISK_STEPS),
            "low": risk.low,
            "high": risk.high,
            "estimate": risk.estimate,
            "rows_inside": risk.rows_inside,
            "verdict": risk.verdict,
        }


def cost(of: OfflineTask, size: int) -> dict[str, Any]:
    """Return what error bars of the paper's equation cost, in solves and in products."""
    data = of.data(size, 0)
    h = select_bandwidths(data.take(torch.arange(min(size, 500))))
    model = NadarayaWatson(data, h, prior_mass=DEFAULT_PRIOR_MASS)
    problem = ControlProblem.build(model, data.schema.encode(data.starts), discount=of.discount)
    policy = PolicyLaw.of(of.policies[2], data.schema)
    solves = []
    for _ in range(3):
        began = time.process_time()
        solution = problem.equation(policy, generator(0, "study")).solve()
        solves.append(time.process_time() - began)
    began = time.process_time()
    drawn = bootstrap_returns(solution, 100)
    spent = time.process_time() - began
    answer, products = _counted(solution)
    return {
        "task": of.name,
        "size": size,
        "bootstrap_in_solves": spent / sorted(solves)[1],
        "bootstrap_deviation": float(drawn.std()),
        "standard_error": answer.standard_error,
        "products": products,
    }


def _counted(solution: BellmanSolution) -> tuple[EquationAnswer, int]:
    """Return the answer, and how many products with a matrix of the size of P it took."""
    products, size = 0, solution.equation.operator.rows.pattern.num_entries
    forward, backward = SparseRows.apply, SparseRows.apply_transposed

    def counted(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def multiply(self: SparseRows, x: torch.Tensor) -> torch.Tensor:
            nonlocal products
            products += (1 if x.ndim == 1 else x.shape[1]) if self.pattern.num_entries >= size // 2 else 0
            return product(self, x)

        return multiply

    with (
        mock.patch.object(SparseRows, "apply", counted(forward)),
        mock.patch.object(SparseRows, "apply_transposed", counted(backward)),
    ):
        answer = equation_answer(solution)
    return answer, products + 1  # K_loo q is a product of its own


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


def run_by_dataset(
    name: str, study: Callable[[OfflineTask, int], Iterator[dict[str, Any]]], tasks: list[str], datasets: int
) -> Iterator[dict[str, Any]]:
    """Judge what has not been judged yet, a dataset at a time."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    done = {(row["task"], row["seed"]) for row in read(name)}
    for seed in range(datasets):
        for of in tasks:
            if (of, seed) in done:
                continue
            rows = list(study(task(of), seed))
            with (RECORDS / f"{name}-{of}.jsonl").open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
            yield from rows


def run_cost() -> Iterator[dict[str, Any]]:
    """Measure the cost, and write it down anew."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    rows = [cost(task(name), size) for name in ("pendulum", "cart-pole") for size in COST_SIZES]
    (RECORDS / "cost-all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    yield from rows


def main() -> None:
    """Run a study, or draw its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("coverage", "policies", "risks", "cost"))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--datasets", type=int, help="100 for coverage, else 1")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.study == "coverage":
        rows = run_coverage(options.tasks, options.datasets or DATASETS)
    elif options.study == "cost":
        rows = run_cost()
    else:
        study = policies if options.study == "policies" else risks
        rows = run_by_dataset(options.study, study, options.tasks, options.datasets or 1)
    for row in rows:
        print(json.dumps({key: row[key] for key in row if key not in {"halves", "estimates"}}), flush=True)


if __name__ == "__main__":
    main()
