"""One case in a process of its own: the case as JSON on standard input, its record on standard output."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import nopg
from nopg import Bandwidths, TrainingConfig
from nopg._memory import peak_memory
from nopg.bellman import NOPG, GradientEstimate, PaperProblem
from nopg.policies import Policy
from nopg.training import Update
from nopg.training._ascent import ascend
from studies.bench.cases import WARM_UP, Case
from studies.bench.dense import DenseUpdate
from studies.bench.floor import best_seconds, floor_inputs, floor_seconds
from studies.bench.tasks import (
    PRIOR_MASS,
    collected,
    new_policy,
    new_problem,
    predicted_bytes,
    prepared,
    select,
)

__all__ = ["measure", "peak_gigabytes"]

_TOLERANCE = 1e-3
_LEARNING_RATE = 1e-2


def measure(case: Case, bandwidths: Mapping[str, list[float]], *, threads: int) -> dict[str, Any]:
    """Return what an update of the case takes, phase by phase, and what its floor takes."""
    torch.set_num_threads(threads)
    h = Bandwidths.from_values(bandwidths["states"], bandwidths["actions"])
    data = collected(case.task, case.transitions)
    before = peak_gigabytes()

    start = time.perf_counter()
    data = prepared(data, h)
    problem = new_problem(case, data, h)
    graph_seconds = time.perf_counter() - start
    policy = new_policy(case, data)
    training = _train(problem, policy, case.updates)
    nodes: Any = problem.model.node_queries
    record = {
        **training,
        "graph_seconds": graph_seconds,
        "nodes": problem.model.num_nodes,
        "K": nodes.graph.num_candidates,
        "weights_dtype": str(nodes.graph.log_psi.dtype).removeprefix("torch."),
        "features": data.features.shape[1],
        "peak_gigabytes": peak_gigabytes(),
        "peak_before_gigabytes": before,
        "predicted_gigabytes": _gigabytes(predicted_bytes(problem)),
        "bandwidths": dict(bandwidths),
    }

    # After the peak has been read: the floor and the dense update need memory too.
    dtype, unknown_value = getattr(torch, case.dtype), problem.unknown_value
    inputs = floor_inputs(problem, nodes, policy, dtype)
    del problem, nodes
    gc.collect()
    pieces = floor_seconds(inputs)
    floor = sum(pieces.values())
    record |= {"floor": pieces, "floor_seconds": floor, "ratio": record["update_seconds"] / floor}
    if not case.dense:
        return record
    dense = DenseUpdate.from_data(
        data, h, discount=case.discount, prior_mass=PRIOR_MASS, unknown_value=unknown_value, dtype=dtype
    )
    return record | _time_dense(dense, policy.to(dtype))


class _Watched(NOPG):
    """The estimator with the products and seconds of every estimate."""

    def __init__(self, problem: PaperProblem) -> None:
        super().__init__(problem, tolerance=_TOLERANCE)
        self.products: list[float] = []
        self.phases: list[Mapping[str, float]] = []

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the estimate."""
        estimate = super().estimate(policy, rng=rng)
        self.products.append(estimate.diagnostics["products"])
        self.phases.append(estimate.seconds)
        return estimate


def _train(problem: PaperProblem, policy: Policy, updates: int) -> dict[str, Any]:
    """Return seconds and products per update, the warm-up left out, and the wall time of all updates."""
    estimator = _Watched(problem)
    wall, cpu = [time.perf_counter()], [time.process_time()]

    def tick(_: Update) -> None:
        wall.append(time.perf_counter())
        cpu.append(time.process_time())

    ascend(
        estimator,
        policy,
        TrainingConfig(updates=updates, learning_rate=_LEARNING_RATE, seed=0, callbacks=[tick]),
    )
    seconds, cpu_seconds = (_differences(clock)[WARM_UP:] for clock in (wall, cpu))
    phases = estimator.phases[WARM_UP:]
    return {
        "update_seconds": statistics.median(seconds),
        "update_seconds_mean": statistics.mean(seconds),
        "update_cpu_seconds": statistics.median(cpu_seconds),
        "update_cpu_seconds_mean": statistics.mean(cpu_seconds),
        "products": statistics.mean(estimator.products[WARM_UP:]),
        "phases": {name: statistics.median(each[name] for each in phases) for name in phases[-1]},
        "training_seconds": wall[-1] - wall[0],
    }


def _time_dense(dense: DenseUpdate, policy: Policy) -> dict[str, Any]:
    """Return the seconds of one dense update; in its favour, with the smallest numbers taken for 0.

    Far samples have weights of 10⁻⁴⁰, for which processors are slow; as first written it pays for them.
    """
    as_written = _seconds(lambda: dense.direction(policy))
    torch.set_flush_denormal(True)
    try:
        seconds = _seconds(lambda: dense.direction(policy))
    finally:
        torch.set_flush_denormal(False)
    return {
        "dense_seconds": seconds,
        "dense_seconds_as_written": as_written,
        "dense_peak_gigabytes": peak_gigabytes(),
    }


def _seconds(work: Callable[[], object]) -> float:
    """Return the wall time of one run; where that is short, the best of some more."""
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    return seconds if seconds > 1.0 else best_seconds(work, 3)


def peak_gigabytes() -> float:
    """Return the most memory this process has held so far."""
    return peak_memory() / 1e9


def _gigabytes(count: float | None) -> float | None:
    return None if count is None else count / 1e9


def _differences(clock: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(clock)]


def _stamp(threads: int) -> dict[str, Any]:
    """Return where and when a record is made."""
    return {
        "threads": threads,
        "nopg": nopg.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def main() -> None:
    """Do what standard input asks for: select bandwidths, or measure a case."""
    asked = json.load(sys.stdin)
    if "select" in asked:
        torch.set_num_threads(asked["threads"])
        answer: dict[str, Any] = dict(select(**asked["select"]))
    else:
        case, threads = Case(**asked["case"]), asked["threads"]
        answer = case.values() | _stamp(threads) | measure(case, asked["bandwidths"], threads=threads)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
