"""How rules for the paper's bandwidths fare: `python -m evidence.bandwidth_study` writes docs/bandwidths.md.

Every rule trains on every dataset and the policies run on the true dynamics; a grid of hand-set widths,
in units of the spacing of the data, shows what could be had. Nothing here feeds back into the package.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import nopg
from evidence.study import run_study
from nopg.data import Transitions
from nopg.envs import PENDULUM_GRIDS, Pendulum, PendulumParameters, collect_grid, collect_uniform, simulate
from nopg.kernels import Bandwidths, paper_bandwidths, select_bandwidths
from nopg.kernels._leave_one_out import leave_one_out
from nopg.kernels._spacing import level_spacing
from nopg.kernels._table import RegressionTable

_SEEDS = (0, 1)
_DISCOUNT = 0.97
_STATE_SHARES, _ACTION_SHARES = (0.2, 0.3, 0.4, 0.55), (0.35, 0.5, 0.65)


def _unbounded(data: Transitions, factor: float = 1.0) -> Bandwidths:
    table = RegressionTable.from_data(data)
    states, actions = leave_one_out(table).bandwidths.split([table.num_state_features, data.actions.shape[1]])
    return Bandwidths.from_values(factor * states, actions, source="leave-one-out")


_RULES: dict[str, Callable[[Transitions], Bandwidths]] = {
    "ours": select_bandwidths,
    "leave-one-out": _unbounded,
    "leave-one-out × 1.5 on states": lambda data: _unbounded(data, 1.5),
    "paper (× 1 and × 50)": lambda data: paper_bandwidths(data, action_factor=50.0),
}


def _datasets() -> dict[str, tuple[Pendulum, Transitions, int]]:
    """Return environment, transitions and the steps of an evaluation by name."""
    plant = Pendulum()
    # Five times the sampling rate: a step is short beside the spacing of the data.
    fast = Pendulum(PendulumParameters(time_step=0.01))
    grids = {
        f"grid, {n}": (plant, collect_grid(plant, PENDULUM_GRIDS[n]), 500) for n in (200, 450, 800, 1800)
    }
    random = {f"uniform, {n}": (plant, collect_uniform(plant, n, seed=0), 500) for n in (1000, 3000)}
    return (
        grids
        | random
        | {"grid, 1800, steps of .01 s": (fast, collect_grid(fast, PENDULUM_GRIDS[1800]), 2500)}
    )


def _returns(
    plant: Pendulum, data: Transitions, steps: int, h: Bandwidths, seeds: tuple[int, ...]
) -> list[float]:
    discount = _DISCOUNT ** (500 / steps)
    results = [
        nopg.optimize(
            data,
            discount,
            model=nopg.PaperModel.Config(bandwidths=h),
            config=nopg.TrainingConfig(seed=seed, start="given", progress=False),
        )
        for seed in seeds
    ]
    # A fifth of the step gives five times as many rewards.
    return [float(simulate(plant, result.policy, steps=steps).returns[0]) * 500 / steps for result in results]


def _measure() -> dict[str, Any]:
    rules, landscape = [], []
    for name, (plant, data, steps) in _datasets().items():
        for rule, select in _RULES.items():
            h = select(data)
            returns = _returns(plant, data, steps, h, _SEEDS)
            rules.append(
                {"data": name, "rule": rule, "states": h.states.tolist(), "actions": h.actions.tolist()}
            )
            rules[-1]["returns"] = returns
            print(name, rule, h, [round(value) for value in returns], flush=True)
    for size in (450, 800):
        plant = Pendulum()
        data = collect_grid(plant, PENDULUM_GRIDS[size])
        states, actions = level_spacing(data)
        for action_share in _ACTION_SHARES:
            for share in _STATE_SHARES:
                h = Bandwidths.from_values(share * states[[0, 0, 1]], action_share * actions)
                returns = _returns(plant, data, 500, h, _SEEDS[:1])
                landscape.append(
                    {"size": size, "state_share": share, "action_share": action_share, "returns": returns}
                )
                print(size, share, action_share, [round(value) for value in returns], flush=True)
    return {"rules": rules, "landscape": landscape}


def _markdown(records: dict[str, Any]) -> str:
    lines = [
        "# Bandwidths: rules against each other",
        "",
        "Made by `python -m evidence.bandwidth_study` from `results/bandwidths.json`; do not edit. Pendulum "
        f"from hanging, the paper's model, γ = {_DISCOUNT} per .05 s, return of 25 s in units of .05 s, "
        "nothing set but the bandwidths. The best policy for this discount returns −369, one that never gets "
        "up about −3 800.",
        "",
        "| data | rule | h of states (cos, sin, velocity) | h of torque | returns, one per seed |",
        "|---|---|---|---|---|",
    ]
    for row in records["rules"]:
        states = ", ".join(f"{h:.3f}" for h in row["states"])
        actions = ", ".join(f"{h:.2f}" for h in row["actions"])
        returns = ", ".join(f"{value:.0f}" for value in row["returns"])
        lines.append(f"| {row['data']} | {row['rule']} | {states} | {actions} | {returns} |")
    for size in dict.fromkeys(row["size"] for row in records["landscape"]):
        cells = {
            (row["state_share"], row["action_share"]): statistics.mean(row["returns"])
            for row in records["landscape"]
            if row["size"] == size
        }
        lines += ["", f"## Hand-set widths on the grid of {size}: return, seed 0", ""]
        lines += ["| h of states / spacing | " + " | ".join(f"torque {b}" for b in _ACTION_SHARES) + " |"]
        lines += ["|---|" + "---|" * len(_ACTION_SHARES)]
        lines += [
            f"| {a} | " + " | ".join(f"{cells[a, b]:.0f}" for b in _ACTION_SHARES) + " |"
            for a in _STATE_SHARES
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_study("bandwidths", _measure, _markdown, description=__doc__)
