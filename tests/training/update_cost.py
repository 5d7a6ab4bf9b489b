"""Time and memory of one update, measured in a process of its own: `python -m training.update_cost 10000`."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from itertools import pairwise

import torch

import nopg
from nopg import TrainingConfig
from nopg._seeding import generator
from nopg.bellman import NOPG, PaperProblem
from nopg.envs import Pendulum, collect_uniform
from nopg.models import PaperModel
from nopg.policies import MLPPolicy
from nopg.training import Update
from nopg.training._ascent import ascend

__all__ = ["measure"]


def measure(transitions: int, *, updates: int, discount: float = 0.97) -> dict[str, float]:
    """Train on uniformly random pendulum transitions; return seconds per update, memory and sizes."""
    torch.set_num_threads(1)
    data = collect_uniform(Pendulum(), transitions, seed=0)
    model = PaperModel(data, nopg.select_bandwidths(data), prior_mass=1e-6)
    problem = PaperProblem.build(model, data.schema.encode(data.starts), discount=discount)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))

    clock = [time.process_time()]
    products = []

    def tick(update: Update) -> None:
        clock.append(time.process_time())
        products.append(update.products)

    ascend(
        NOPG(problem), policy, TrainingConfig(updates=updates, learning_rate=1e-2, seed=0, callbacks=[tick])
    )
    seconds = [after - before for before, after in pairwise(clock)]
    return {
        "transitions": transitions,
        "candidates": model.node_queries.graph.num_candidates,
        "seconds_per_update": statistics.mean(seconds),
        "slowest_update": max(seconds),
        "products_per_update": statistics.mean(products),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transitions", type=int)
    parser.add_argument("--updates", type=int, default=50)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(measure(options.transitions, updates=options.updates)))
