"""Phase portraits of μ̃ and V̂ on the swing-up pendulum, beside what the true pendulum does (`figure:muv`).

The visits of the model are those of `Solution.visited`: states along rollouts of the local model, or what the
samples of the paper's model lead to. The true pendulum visits its state at time t with the share (1 − γ)γᵗ.
Both are shared out over 20 × 20 cells, and their distance is the total variation.

Each share is split linearly among the four nearest cells, which is the mean over all places that the grid
might have. Whole cells would not do: both rest states are corners of the 20 × 20 grid over [−π, π] × [−8, 8],
so that the least move of a pendulum at rest would put it into another cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.bellman import Solution
from nopg.data import Transitions
from nopg.envs import Pendulum, Trajectories, collect_grid, simulate
from nopg.errors import ArgumentError
from nopg.evaluation import control_law
from nopg.policies import MLPPolicy, Policy
from nopg.training import TrainingResult, optimize
from studies.markdown import table
from studies.paper._experiment import MODES, Choice, Experiment, Finding, Measurement, Mode, Trial, mode_of
from studies.paper.bandwidths import released_bandwidths
from studies.paper_data import PENDULUM_GRIDS
from studies.records import Record

__all__ = ["PortraitStudy", "Visits", "measure_portrait", "portrait_summary", "total_variation"]

_DISCOUNT = 0.97
_CELLS, _LATTICE = 20, 33
_UPRIGHT = 0.5  # rad
_STEPS, _PATH_STEPS = 500, 200
_FAITHFUL_UPDATES, _QUICK_UPDATES, _QUICK_SIZE = 300, 30, 450


@dataclass(frozen=True, slots=True)
class Visits:
    """A distribution over states of the pendulum as points with shares.

    Attributes:
        states: Angle and velocity of each point, shape (m, 2).
        shares: Of each point, shape (m,), summing to 1.
    """

    states: torch.Tensor
    shares: torch.Tensor

    @classmethod
    def of_model(cls, solution: Solution) -> Visits:
        """Return the discounted visits that the data let us expect."""
        return cls(*solution.visited())

    @classmethod
    def of_paths(cls, states: torch.Tensor, discount: float) -> Visits:
        """Return the discounted visits along paths (T, m, 2); their end takes nothing away."""
        T, m, _ = states.shape
        shares = discount ** torch.arange(T, dtype=torch.float64)
        each = (shares / (m * shares.sum()))[:, None].expand(T, m)
        return cls(states.reshape(-1, 2), each.reshape(-1))

    @property
    def upright(self) -> float:
        """The share within .5 rad of upright, whatever the velocity."""
        return float(self.shares[_wrapped(self.states[:, 0]).abs() <= _UPRIGHT].sum())

    def in_cells(self) -> torch.Tensor:
        """Return the share of every cell, shape (20, 20), by angle and velocity, each point in one cell."""
        x, y = self._in_units_of_cells()
        shares = self.shares.new_zeros(_CELLS, _CELLS)
        at = x.floor().long() % _CELLS, y.floor().long().clamp(0, _CELLS - 1)
        return shares.index_put_(at, self.shares, accumulate=True)

    def shared_out(self) -> torch.Tensor:
        """Return the share of every cell, shape (20, 20), each point split among the four nearest ones."""
        x, y = self._in_units_of_cells()
        x, y = x - 0.5, (y - 0.5).clamp(0, _CELLS - 1)  # from centre to centre
        left, low = x.floor(), y.floor()
        shares = self.shares.new_zeros(_CELLS, _CELLS)
        for right, along in ((0, left + 1 - x), (1, x - left)):
            for up, across in ((0, low + 1 - y), (1, y - low)):
                at = (left.long() + right) % _CELLS, (low.long() + up).clamp(max=_CELLS - 1)
                shares.index_put_(at, self.shares * along * across, accumulate=True)
        return shares

    def _in_units_of_cells(self) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = Pendulum().state_low, Pendulum().state_high
        x, y = ((self.states - low) / (high - low) * _CELLS).unbind(1)
        return x, y


def total_variation(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return half the sum of differences of shares by cell.

    Example:
        >>> total_variation(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))
        0.5
    """
    return 0.5 * float((first - second).abs().sum())


def measure_portrait(
    size: int, seed: int, *, mode: Mode, quick: bool = False
) -> tuple[dict[str, Any], Transitions]:
    """Train on a grid of the pendulum, and return the portraits before and after with the data.

    Args:
        size: Of the grid, one of `PENDULUM_GRIDS`.
        seed: Of the training.
        mode: 'ours' and 'paper' set nothing; 'faithful' is the paper's recipe and its 300 updates.
        quick: A grid of 450 and few updates: seconds.
    """
    if mode not in MODES or size not in PENDULUM_GRIDS:
        raise ArgumentError(
            f"there is no portrait {mode!r} of {size}; give one of {', '.join(MODES)}, and one of "
            f"{', '.join(str(known) for known in PENDULUM_GRIDS)}"
        )
    plant = Pendulum()
    data = collect_grid(plant, PENDULUM_GRIDS[_QUICK_SIZE if quick else size])
    fresh = MLPPolicy.from_data(data.features, data.actions, rng=generator(seed, "policy"))
    result = _train(data, seed, mode, quick)
    before = result.problem.solve(fresh, seed=seed)
    results: dict[str, Any] = {"before": _portrait(before, data), "after": _portrait(result.solution, data)}
    path = _paths(result.policy.policy, data).states[:_PATH_STEPS, 0]
    results["path"] = _rounded(torch.stack([_wrapped(path[:, 0]), path[:, 1]], dim=1), 4)
    results["updates"] = len(result.history)
    return results, data


@dataclass(frozen=True, slots=True, kw_only=True)
class PortraitStudy(Experiment):
    """The portraits of a few trainings, and their distance from the truth.

    Attributes:
        sizes: Of the grids.
        trials: Seeds.
    """

    sizes: tuple[int, ...] = (1_800,)
    trials: int = 3

    def plan(self, choice: Choice) -> list[Trial]:
        """Return the trials."""
        sizes, trials = choice.sizes or self.sizes, choice.trials or self.trials
        if choice.quick:
            sizes, trials = (_QUICK_SIZE,), 1
        return [
            Trial(self.name, mode, method, size, seed, choice.quick)
            for method in self.chosen_methods(choice, ["nopg-d"])
            for size in sizes
            for seed in range(trials)
            for mode in choice.modes
        ]

    def measure(self, trial: Trial) -> Measurement:
        """Train, and draw up the portraits."""
        results, data = measure_portrait(trial.size, trial.seed, mode=trial.mode, quick=trial.quick)
        return Measurement(results, data, {"discount": _DISCOUNT, "cells": _CELLS})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return one row per record."""
        if not records:
            return []
        heading, *rows = portrait_summary(records)
        return table(heading, rows)

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return whether the upright is foreseen, and how near the truth μ̃ is."""
        claims = (
            "After training, μ̃ within .5 rad of upright is ten times what it was",
            "μ̃ after training within .1 of the truth in total variation",
        )
        mine = [r.results for r in records if mode_of(r) == "ours"]
        if not mine:
            return [Finding(claim, "not run", "not run in full") for claim in claims]
        before, after = ([part[when]["upright_mass"] for part in mine] for when in ("before", "after"))
        risen = all(y >= 10 * x for x, y in zip(before, after, strict=True))
        apart = [part["after"]["total_variation"] for part in mine]
        return [
            Finding(
                claims[0],
                ", ".join(f"{x:.2g} → {y:.2g}" for x, y in zip(before, after, strict=True)),
                "kept" if risen else "missed",
            ),
            Finding(
                claims[1],
                ", ".join(f"{x:.3f}" for x in apart),
                "kept" if max(apart) <= 0.1 else "missed",
            ),
        ]


def portrait_summary(records: Sequence[Record]) -> list[list[str]]:
    """Return the rows of a table, the heading first: one row per record."""
    heading = [
        "mode",
        "size",
        "seed",
        "upright, before → after",
        "ratio",
        "upright in truth",
        "TV before, after",
        "in whole cells",
        "Ĵ / true return, before",
        "after",
    ]
    return [heading, *(_summary_row(record) for record in records)]


def _summary_row(record: Record) -> list[str]:
    results = record.results
    before, after = results["before"], results["after"]

    def both(name: str) -> str:
        return f"{before[name]:.2f}, {after[name]:.2f}"

    ratio = after["upright_mass"] / before["upright_mass"] if before["upright_mass"] > 0 else math.inf
    return [
        mode_of(record),
        str(record.rows),
        str(record.seed),
        f"{before['upright_mass']:.2g} → {after['upright_mass']:.2g}",
        f"{ratio:.3g}",
        f"{before['upright_mass_truth']:.2g} → {after['upright_mass_truth']:.2g}",
        both("total_variation"),
        both("total_variation_cells"),
        *(f"{part['expected_return']:.1f} / {part['discounted_truth']:.1f}" for part in (before, after)),
    ]


def _train(data: Transitions, seed: int, mode: Mode, quick: bool) -> TrainingResult:
    if mode != "faithful":
        config = TrainingConfig(seed=seed, progress=False)
        if quick:
            config = replace(config, updates=3, start="given")
        return optimize(data, _DISCOUNT, model="local" if mode == "ours" else "paper", config=config)
    return optimize(
        data,
        _DISCOUNT,
        model=PaperModel.Config(bandwidths=released_bandwidths(data, action_factor=50.0), prior_mass=0.0),
        config=TrainingConfig(
            updates=_QUICK_UPDATES if quick else _FAITHFUL_UPDATES,
            seed=seed,
            start="given",
            stop=lambda update: False,
            progress=False,
        ),
    )


def _portrait(solution: Solution, data: Transitions) -> dict[str, Any]:
    """Return what one policy looks like in the model and in truth."""
    runs = _paths(solution.policy, data)
    model, truth = Visits.of_model(solution), Visits.of_paths(runs.states[:-1], _DISCOUNT)
    at = solution.at(data.schema.encode(_lattice()))
    return {
        "visitation": _rounded(model.shared_out(), 4),
        "truth": _rounded(truth.shared_out(), 4),
        "value": _rounded(at.value.reshape(_LATTICE, _LATTICE), 4),
        "unknown": _rounded(at.unknown.reshape(_LATTICE, _LATTICE), 2),
        "upright_mass": _number(model.upright),
        "upright_mass_truth": _number(truth.upright),
        "total_variation": _number(total_variation(model.shared_out(), truth.shared_out())),
        "total_variation_cells": _number(total_variation(model.in_cells(), truth.in_cells())),
        "unknown_mass": _number(solution.unknown_mass),
        "expected_return": _number(solution.expected_return),
        "discounted_truth": _number(runs.discounted_returns(_DISCOUNT).item()),
        "return": _number(runs.returns.item()),
    }


def _paths(policy: Policy, data: Transitions) -> Trajectories:
    """Return what the true pendulum does from the start; nothing is drawn, so one path is all there is."""
    law = control_law(policy, data.schema)
    return simulate(Pendulum(), law, steps=_STEPS, initial_states=data.starts)


def _lattice() -> torch.Tensor:
    """Return states (33², 2) over the box of the pendulum, the velocity varying fastest."""
    low, high = Pendulum().state_low.tolist(), Pendulum().state_high.tolist()
    axes = [torch.linspace(a, b, _LATTICE, dtype=torch.float64) for a, b in zip(low, high, strict=True)]
    return torch.cartesian_prod(*axes)


def _wrapped(angles: torch.Tensor) -> torch.Tensor:
    return torch.remainder(angles + math.pi, 2 * math.pi) - math.pi


def _number(value: float, digits: int = 5) -> float:
    """Return a number rounded to significant digits."""
    return float(f"{value:.{digits}g}")


def _rounded(values: torch.Tensor, digits: int) -> list[list[float]]:
    """Return rows of numbers rounded to significant digits, none finer than 10⁻⁶."""
    return [[round(_number(value, digits), 6) for value in row] for row in values.tolist()]
