"""A user's script, run by the tests with and without torchrun: train, and write down what came out."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import nopg
from nopg._ranks import current_ranks
from nopg.bellman import PaperProblem
from nopg.bellman._solution import BellmanSolution
from nopg.data.io import read_parquet
from nopg.envs import Pendulum, collect_uniform


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_200)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--policy", default="deterministic")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--parquet", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--minutes", type=float)
    options = parser.parse_args()

    torch.set_num_threads(1)
    ranks = current_ranks()
    if options.parquet:
        data = read_parquet(options.parquet, part=(ranks.number, ranks.count))
    else:
        data = collect_uniform(Pendulum(), options.rows, seed=0)
    checkpoint = None
    if options.checkpoint:
        checkpoint = nopg.CheckpointConfig(options.checkpoint, every=options.every, minutes=options.minutes)
    result = nopg.optimize(
        data,
        0.97,
        model=nopg.PaperModel.Config(prior_mass=1e-3, solver=options.solver),
        policy=options.policy,
        config=nopg.TrainingConfig(updates=options.updates, start="given", progress=False),
        checkpoint=checkpoint,
    )
    problem, solution = result.problem, result.solution
    assert isinstance(problem, PaperProblem)
    assert isinstance(solution, BellmanSolution)
    assert problem.rows is not None
    proof, asked = (
        result.certificate,
        torch.tensor([[0.0, 0.0], [3.0, 1.0], [1.0, -6.0]], dtype=torch.float64),
    )
    torch.save(
        {
            "parameters": [parameter.detach() for parameter in result.policy.policy.parameters()],
            "return": result.expected_return,
            "unknown": result.unknown_mass,
            "value": torch.as_tensor(result.value(asked)),
            "history": [update.expected_return for update in result.history],
            "cut": proof.cut_error,
            "proof": [proof.return_error - proof.cut_error, proof.duality_gap, proof.mass_defect],
            "rows": problem.rows,
            "q": solution.q,
            "mu": solution.mu,
        },
        f"{options.out}.{ranks.number}",
    )


if __name__ == "__main__":
    main()
