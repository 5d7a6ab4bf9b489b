"""One rank of the scaling measurement, which starts it with torchrun or alone."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import pairwise

import torch

import nopg
from nopg import TrainingConfig
from nopg._ranks import current_ranks
from nopg._seeding import generator
from nopg.bellman import NOPG, PaperProblem
from nopg.envs import Pendulum, collect_uniform
from nopg.models import PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._sharing import share_rows
from nopg.policies import MLPPolicy
from nopg.training import Update
from nopg.training._ascent import ascend
from studies.printing import say

__all__ = ["main"]

_WARM_UP = 3


def main() -> None:
    """Train for some updates on uniformly random pendulum transitions and print what this rank saw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    parser.add_argument("--updates", type=int, default=13)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ranks = current_ranks()
    data = collect_uniform(Pendulum(), options.rows, seed=0)
    h = nopg.select_bandwidths(data.take(torch.arange(min(options.rows, 100_000))))
    starts = data.schema.encode(data.starts)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))

    ranks.wait()
    began = time.perf_counter()
    shared = share_rows(data, h.state_kernel, ranks)
    del data
    model = PaperModel(
        shared.data,
        h,
        prior_mass=1e-6,
        search=CandidateSearch(num_candidates=32),
        dtype=torch.float32,
        ranks=ranks,
        cells=shared.cells,
    )
    problem = PaperProblem.build(model, starts[ranks.number :: ranks.count], discount=0.99)
    graph_seconds = time.perf_counter() - began

    clock, products = [time.perf_counter()], []

    def tick(update: Update) -> None:
        clock.append(time.perf_counter())
        products.append(update.products)

    ascend(
        NOPG(problem, tolerance=1e-3),
        policy,
        TrainingConfig(updates=options.updates, learning_rate=1e-2, seed=0, callbacks=[tick]),
    )
    seconds = [after - before for before, after in pairwise(clock)][_WARM_UP:]

    # One product in either direction, and what it sends.
    operator = problem.equation(policy.float(), generator(0, "actions")).operator
    sent = []
    for product in (operator.apply, operator.apply_transposed):
        before = ranks.bytes_sent
        product(torch.ones(model.num_nodes, dtype=torch.float32))
        sent.append(ranks.bytes_sent - before)
    results = {
        "rank": ranks.number,
        "ranks": ranks.count,
        "rows": options.rows,
        "own_rows": model.num_nodes,
        "halo": model.node_queries.pattern.num_columns - model.num_nodes,
        "bytes_sent": sent,
        "graph_seconds": graph_seconds,
        "update_seconds": statistics.median(seconds),
        "products": statistics.mean(products[_WARM_UP:]),
    }
    say(json.dumps(results))


if __name__ == "__main__":
    main()
