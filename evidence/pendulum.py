"""The pendulum rows: what the paper's transition model gives, untuned, on the paper's grids."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evidence.figure import Figure
from examples.pendulum_grid import LIMITS, run_trial

__all__ = ["pendulum"]

_TRIALS = 5


@dataclass(frozen=True)
class _Promise:
    samples: int
    median: float
    worst: float | None = None
    discount: float = 0.97
    policy: Literal["deterministic", "gaussian"] = "deterministic"


_PROMISES = (
    _Promise(200, -480),
    _Promise(450, -400, worst=-450),
    _Promise(800, -400),
    _Promise(1250, -400),
    _Promise(1800, -400),
    _Promise(3200, -400),
    _Promise(450, -420, policy="gaussian"),
    _Promise(1800, -340, discount=0.99),
)


def pendulum() -> Iterator[Figure]:
    """Train five times for each promise and run the policies on the true dynamics."""
    return map(_measure, _PROMISES)


def _measure(promise: _Promise) -> Figure:
    runs = [
        run_trial(
            promise.samples,
            discount=promise.discount,
            policy=promise.policy,
            model="paper",
            seed=seed,
        )
        for seed in range(_TRIALS)
    ]
    returns = [float(trajectory.returns[0]) for trajectory, _ in runs]
    median, lowest = statistics.median(returns), min(returns)
    required = f"median ≥ {promise.median:.0f}"
    if promise.worst is not None:
        required += f", worst ≥ {promise.worst:.0f}"
    kept = median >= promise.median and (promise.worst is None or lowest >= promise.worst)

    flags = f" --discount {promise.discount}" if promise.discount != 0.97 else ""
    flags += " --policy gaussian" if promise.policy == "gaussian" else ""
    return Figure(
        section="Pendulum from a grid, the paper's model, only the discount given: return of 500 steps from "
        "hanging, five seeds",
        name=f"{promise.samples} samples, γ = {promise.discount}, {promise.policy} "
        f"(limit {LIMITS[promise.discount]})",
        required=required,
        measured=f"median {median:.1f}, worst {lowest:.1f}; all {', '.join(f'{x:.0f}' for x in returns)}",
        kept=kept,
        command=f"python examples/pendulum_grid.py --samples {promise.samples} --trials {_TRIALS} "
        f"--model paper{flags}",
    )
