"""The two transition models side by side: `python -m evidence.model_study` writes docs/models.md."""

from __future__ import annotations

from typing import Any, Literal, get_args

import nopg
from evidence.study import run_study
from nopg.data import Transitions
from nopg.environments import PENDULUM_GRIDS, Pendulum
from nopg.rollouts import collect_grid, collect_uniform, simulate

_DISCOUNT = 0.97
_Model = Literal["nadaraya-watson", "local-linear"]


def _datasets() -> dict[str, Transitions]:
    plant = Pendulum()
    grids = {f"grid, {n}": collect_grid(plant, PENDULUM_GRIDS[n]) for n in (200, 450, 800)}
    sizes = [(450, seed) for seed in range(3)] + [(1000, seed) for seed in range(3)] + [(3000, 0)]
    scattered = {f"uniform, {n}, dataset {seed}": collect_uniform(plant, n, seed=seed) for n, seed in sizes}
    return grids | scattered


def _measure() -> list[dict[str, Any]]:
    rows = []
    for name, data in _datasets().items():
        for model in get_args(_Model):
            result = nopg.optimize(data, _DISCOUNT, model=model, progress=False)
            run = simulate(Pendulum(), result.policy, steps=500)
            rows.append(
                {
                    "data": name,
                    "model": model,
                    "return": float(run.returns[0]),
                    "discounted": float(run.discounted_returns(_DISCOUNT)[0]),
                    "predicted": result.expected_return,
                    "unknown": result.unknown_mass,
                }
            )
            print(rows[-1], flush=True)
    return rows


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# The transition models side by side",
        "",
        "Made by `python -m evidence.model_study` from `results/models.json`; do not edit. Pendulum from "
        f"hanging, γ = {_DISCOUNT}, seed 0, nothing set but the model. The best policy for this discount "
        "returns −369.",
        "",
        "| data | model | return of 500 steps | discounted | predicted Ĵ | unknown mass |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['data']} | {row['model']} | {row['return']:.0f} | {row['discounted']:.1f} "
        f"| {row['predicted']:.1f} | {row['unknown']:.1e} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_study("models", _measure, _markdown, description=__doc__)
