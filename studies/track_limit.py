"""A cart-pole with a limit on its track: `python -m studies.track_limit [--seeds 0-9]` runs and prints it.

Development plant. Every seed is its own log of 1 500 random steps at 50 Hz. Policies start within 1.5° of
upright; violations are the share of steps beyond the edge on the true cart.
"""

from __future__ import annotations

import argparse
import time
import warnings

import torch

import nopg
from nopg._seeding import generator
from nopg.envs import CartPole, simulate
from nopg.training import Constraint, TrainingResult
from studies.markdown import table
from studies.plants import BENCHMARKS
from studies.printing import say
from studies.records import Record, append, code_version, read
from studies.seeds import seeds_of

__all__ = ["main"]

_STUDY, _BENCHMARK = "track-limit", "cart-pole-track"
_ROWS, _DISCOUNT, _EDGE, _LIMIT = 1_500, 0.99, 0.02, 0.05
_STEPS, _EPISODES, _STARTS = 1_000, 20, 15
# Violations below this are none.
_NEGLIGIBLE = 0.01


def _plant() -> CartPole:
    return CartPole(rate=50, angle_limit=0.25, max_voltage=5)


def run_one(seed: int, *, limited: bool) -> Record:
    """Train on the log of a seed, with or without the limit, and run the policy on the true cart."""
    torch.set_num_threads(1)
    starts = _plant().initial(_STARTS, rng=generator(seed, "starts of the study"))
    data = BENCHMARKS["cart-pole"].data(_ROWS, seed).starting_at(starts)
    limits = (Constraint(f"abs(position) > {_EDGE}", limit=_LIMIT),) if limited else ()
    began = time.process_time()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        result = nopg.optimize(
            data, _DISCOUNT, constraints=limits, config=nopg.TrainingConfig(seed=seed, progress=False)
        )
    seconds = time.process_time() - began
    return _record(result, seed, limited, seconds, tuple(str(warning.message) for warning in raised))


def _record(
    result: TrainingResult, seed: int, limited: bool, seconds: float, messages: tuple[str, ...]
) -> Record:
    rng = generator(seed, "runs")
    runs = simulate(_plant(), result.policy, steps=_STEPS, num_episodes=_EPISODES, rng=rng)
    beyond = (runs.states[1:, :, 0].abs() > _EDGE)[runs.alive]
    discounted = runs.discounted_returns(_DISCOUNT)
    return Record(
        study=_STUDY,
        benchmark=_BENCHMARK,
        role="development",
        method="nopg with limit" if limited else "nopg",
        rows=_ROWS,
        seed=seed,
        commit=code_version("src/nopg"),
        cpu_seconds=round(seconds, 3),
        undiscounted=float(runs.returns.mean()),
        discounted=float(discounted.mean()),
        standard_error=float(discounted.std() / _EPISODES**0.5),
        episodes=_EPISODES,
        warnings=messages,
        summary={
            "violations": float(beyond.double().mean()),
            "kept": [answer.kept for answer in result.constraints],
            "price": [answer.multiplier for answer in result.constraints],
            "interval": result.interval,
            "verdict": result.verdict,
        },
    )


def result() -> str:
    """Return what was found, one line for each log."""
    found = {(record.seed, record.method): record for record in read(study=_STUDY)}
    rows, exceeded, kept = list[tuple[str, ...]](), 0, 0
    for seed in sorted({seed for seed, _ in found}):
        free, held = found.get((seed, "nopg")), found.get((seed, "nopg with limit"))
        if free is None or held is None:
            continue
        before, after = (one.summary["violations"] for one in (free, held))
        sums = f"{free.true_sum:.0f}", f"{held.true_sum:.0f}"
        rows.append((f"{seed}", sums[0], f"{before:.1%}", sums[1], f"{after:.1%}"))
        if before > _NEGLIGIBLE:
            exceeded += 1
            kept += after <= 0.1 * before and held.true_sum >= 0.9 * free.true_sum
    heads = ("log", "return", "violations", "return, limited", "violations, limited")
    closing = f"kept on {kept} of {exceeded} logs on which the free policy exceeds the limit"
    return "\n".join([*table(heads, rows), "", closing])


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-9", help="such as 0-9")
    parser.add_argument("--table-only", action="store_true")
    given = parser.parse_args()
    for seed in [] if given.table_only else seeds_of(given.seeds):
        for limited in (False, True):
            append(run_one(seed, limited=limited))
    say(result())


if __name__ == "__main__":
    main()
