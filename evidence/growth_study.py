"""More data must help: uniformly random pendulum transitions, from a thousand to a hundred thousand.

`python -m evidence.growth_study` trains with both transition models and both starts, only the discount
given, keeps one record per trial in results/growth.json as it goes, and writes docs/growth.md from the
records.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import nopg
from evidence.study import write_records
from nopg.environments import Pendulum
from nopg.rollouts import collect_uniform, simulate

__all__ = ["markdown", "measure"]

_ROOT = Path(__file__).parent.parent
_RECORDS, _PAGE = _ROOT / "results" / "growth.json", _ROOT / "docs" / "growth.md"
_SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
_MODELS = ("nadaraya-watson", "local-linear")
_STARTS = ("given", "greedy")
_DISCOUNT, _LIMIT, _WANTED = 0.99, -304, -325
_COMPARED = 10_000
_TRIALS = {1_000: 5, 3_000: 5, 10_000: 3, 30_000: 2, 100_000: 1}


def measure(
    model: str, rows: int, seed: int, *, updates: int, precision: str = "auto", start: str = "given"
) -> dict[str, Any]:
    """Train once, run the controller from hanging for 500 steps, and return the record."""
    plant = Pendulum()
    data = collect_uniform(plant, rows, seed=seed)
    started = time.perf_counter()
    result = nopg.optimize(
        data,
        _DISCOUNT,
        model=model,  # type: ignore[arg-type]
        precision=precision,  # type: ignore[arg-type]
        start=start,  # type: ignore[arg-type]
        seed=seed,
        updates=updates,
        progress=False,
    )
    seconds = time.perf_counter() - started
    run = simulate(plant, result.policy, steps=500)
    return {
        "model": model,
        "rows": rows,
        "seed": seed,
        "return": float(run.returns[0]),
        "expected": result.expected_return,
        "unknown": result.unknown_mass,
        "updates": len(result.history),
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "precision": precision,
        "start": start,
        "discounted": float(run.discounted_returns(_DISCOUNT)[0]),
    }


def markdown(records: list[dict[str, Any]]) -> str:
    """Return the page."""
    lines = [
        "# What more data bring",
        "",
        "Made by `python -m evidence.growth_study` from `results/growth.json`; do not edit. Uniformly random "
        f"pendulum transitions, γ = {_DISCOUNT}, only the discount given: undiscounted return of 500 steps "
        f"from hanging, median over the seeds. The best possible at this discount is about {_LIMIT}; wanted "
        f"from 10⁵ rows is ≥ {_WANTED} with the better model. A gradient that starts at a random policy ends "
        "near -357 however many the data: there is an optimum of its own there, also on the true pendulum. A "
        "greedy start (`start='greedy'`, policy iteration on the data first) goes where the model's optimum "
        "is, and then more data help.",
        "",
        "| rows | model | start | seeds | median return | worst | Ĵ | updates | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rows in _SIZES:
        for model, start in itertools.product(_MODELS, _STARTS):
            mine = _of(records, rows, model, "auto", start)
            if not mine:
                continue
            median = {
                key: statistics.median(record[key] for record in mine)
                for key in ("return", "expected", "updates", "seconds")
            }
            lines.append(
                f"| {rows} | {model} | {start} | {len(mine)} | {median['return']:.1f} | "
                f"{min(record['return'] for record in mine):.1f} | {median['expected']:.1f} | "
                f"{median['updates']:.0f} | {median['seconds']:.0f} |"
            )
    return "\n".join([*lines, *_precision(records)]) + "\n"


def _precision(records: list[dict[str, Any]]) -> list[str]:
    """Return the section on training in float32."""
    single = {record["seed"]: record for record in _of(records, _COMPARED, _MODELS[0], "float32")}
    double = {record["seed"]: record for record in _of(records, _COMPARED, _MODELS[0], "auto")}
    lines = [
        "",
        "## float32 against float64",
        "",
        f"The paper's model on {_COMPARED} rows, trained in both precisions; the answer is in float64.",
        "",
        "| seed | return, float64 | return, float32 | apart |",
        "|---|---|---|---|",
    ]
    for seed in sorted(single.keys() & double.keys()):
        a, b = double[seed]["return"], single[seed]["return"]
        lines.append(f"| {seed} | {a:.1f} | {b:.1f} | {abs(a - b) / abs(a):.2%} |")
    return lines


def _of(
    records: list[dict[str, Any]], rows: int, model: str, precision: str, start: str = "given"
) -> list[dict[str, Any]]:
    wanted = (rows, model, precision, start)
    keys = ("rows", "model", "precision", "start")
    return [record for record in records if tuple(record[key] for key in keys) == wanted]


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table-only", action="store_true", help="write the page from the stored records")
    parser.add_argument("--rows", type=int, nargs="*", default=list(_SIZES))
    parser.add_argument("--models", nargs="*", default=list(_MODELS))
    parser.add_argument("--starts", nargs="*", default=list(_STARTS))
    parser.add_argument("--trials", type=int, help="seeds per row instead of the usual")
    parser.add_argument("--updates", type=int, default=1_500)
    options = parser.parse_args()
    records: list[dict[str, Any]] = json.loads(_RECORDS.read_text()) if _RECORDS.exists() else []
    if not options.table_only:
        torch.set_num_threads(1)
        asked = [
            (model, rows, seed, "auto", start)
            for rows in options.rows
            for model in options.models
            for start in options.starts
            for seed in range(options.trials or _TRIALS[rows])
        ]
        if _COMPARED in options.rows and _MODELS[0] in options.models:
            asked += [(_MODELS[0], _COMPARED, seed, "float32", "given") for seed in range(_TRIALS[_COMPARED])]
        for model, rows, seed, precision, start in asked:
            if any(record["seed"] == seed for record in _of(records, rows, model, precision, start)):
                continue
            records.append(
                measure(model, rows, seed, updates=options.updates, precision=precision, start=start)
            )
            print(records[-1], flush=True)
            write_records(_RECORDS, records)
    _PAGE.write_text(markdown(records))


if __name__ == "__main__":
    main()
