"""Rules for the paper's bandwidths, compared with each other and with a grid of hand-set widths.

Every rule trains on every dataset and the policies run on the true plant. Hand-set widths are in units of the
spacing of the data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import nopg
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid, collect_uniform, simulate
from nopg.kernels import Bandwidths, paper_bandwidths, select_bandwidths
from nopg.kernels._leave_one_out import leave_one_out
from nopg.kernels._spacing import level_spacing
from nopg.kernels._table import RegressionTable
from studies.markdown import table
from studies.paper_data import PENDULUM_GRIDS
from studies.records import Record

__all__ = ["measure", "page"]

_SEEDS = (0, 1)
_DISCOUNT = 0.97
_BY_HAND = "hand-set"
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
    fast = Pendulum(time_step=0.01)
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


def measure() -> Iterator[dict[str, Any]]:
    """Yield the returns by dataset and rule, then those of hand-set widths."""
    for name, (plant, data, steps) in _datasets().items():
        for rule, select in _RULES.items():
            h = select(data)
            results = {"states": h.states.tolist(), "actions": h.actions.tolist()}
            results["returns"] = _returns(plant, data, steps, h, _SEEDS)
            yield {"benchmark": name, "method": rule, "results": results}
    plant = Pendulum()
    for size in (450, 800):
        data = collect_grid(plant, PENDULUM_GRIDS[size])
        states, actions = level_spacing(data)
        for action_share in _ACTION_SHARES:
            for share in _STATE_SHARES:
                h = Bandwidths.from_values(share * states[[0, 0, 1]], action_share * actions)
                yield {
                    "benchmark": f"grid, {size}",
                    "method": _BY_HAND,
                    "rows": size,
                    "options": {"state_share": share, "action_share": action_share},
                    "results": {"returns": _returns(plant, data, 500, h, _SEEDS[:1])},
                }


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    lines = [
        "# Bandwidths: rules against each other",
        "",
        "Made by `python -m studies page bandwidths` from `results/studies/bandwidths.jsonl`; do not edit. "
        f"Pendulum from hanging, the paper's model, γ = {_DISCOUNT} per .05 s, return of 25 s in units of "
        ".05 s, nothing set but the bandwidths. The best policy for this discount returns −369, one that "
        "never gets up about −3 800.",
        "",
    ]
    heads = ["data", "rule", "h of states (cos, sin, velocity)", "h of torque", "returns, one per seed"]
    rules = [record for record in records if record.method != _BY_HAND]
    lines += table(heads, [_rule(record) for record in rules])
    by_hand = [record for record in records if record.method == _BY_HAND]
    for size in dict.fromkeys(record.rows for record in by_hand):
        cells = {
            (record.options["state_share"], record.options["action_share"]): record.results["returns"]
            for record in by_hand
            if record.rows == size
        }
        lines += ["", f"## Hand-set widths on the grid of {size}: return, seed 0", ""]
        lines += table(
            ("h of states / spacing", *(f"torque {b}" for b in _ACTION_SHARES)),
            [
                (f"{a}", *(f"{statistics.mean(cells[a, b]):.0f}" for b in _ACTION_SHARES))
                for a in _STATE_SHARES
            ],
        )
    return "\n".join(lines) + "\n"


def _rule(record: Record) -> tuple[str, ...]:
    forms = {"states": ".3f", "actions": ".2f", "returns": ".0f"}
    cells = (", ".join(format(x, form) for x in record.results[name]) for name, form in forms.items())
    return (record.benchmark, record.method, *cells)
