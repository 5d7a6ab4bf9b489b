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
from dataclasses import dataclass
from typing import Any

import torch

from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.bellman import Solution
from nopg.data import Transitions
from nopg.envs import Pendulum, Trajectories, collect_grid, simulate
from nopg.evaluation import control_law
from nopg.policies import MLPPolicy, Policy
from nopg.training import optimize
from studies.paper._experiment import MODES, Experiment, Finding, Mode, mode_of
from studies.paper.bandwidths import released_bandwidths
from studies.paper_data import PENDULUM_GRIDS
from studies.records import Record
from studies.study import table

UPRIGHT = 0.5
"""A pendulum within this angle of upright, in rad, counts as upright."""

_DISCOUNT, _SIZE, _TRIALS = 0.97, 1_800, 3
_CELLS, _LATTICE = 20, 33
_STEPS, _PATH_STEPS = 500, 200
_FAITHFUL_UPDATES = 300
_HEADS = (
    "mode",
    "size",
    "seed",
    "upright, before → after",
    "ratio",
    "upright in truth",
    "TV before, after",
    "Ĵ / true return, before",
    "after",
)


def cells_of(states: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Return the share of every cell, shape (20, 20), by angle and velocity.

    Args:
        states: Angle and velocity of each point, shape (m, 2).
        shares: Of each point, which is split among the four nearest cells, shape (m,).
    """
    low, high = Pendulum().state_low, Pendulum().state_high
    x, y = ((states - low) / (high - low) * _CELLS - 0.5).unbind(1)  # from centre to centre
    y = y.clamp(0, _CELLS - 1)
    left, below = x.floor(), y.floor()
    cells = shares.new_zeros(_CELLS, _CELLS)
    for right, along in ((0, left + 1 - x), (1, x - left)):
        for up, across in ((0, below + 1 - y), (1, y - below)):
            at = (left.long() + right) % _CELLS, (below.long() + up).clamp(max=_CELLS - 1)
            cells.index_put_(at, shares * along * across, accumulate=True)
    return cells


def upright_share(states: torch.Tensor, shares: torch.Tensor) -> float:
    """Return the share within .5 rad of upright, whatever the velocity."""
    return float(shares[_wrapped(states[:, 0]).abs() <= UPRIGHT].sum())


def visits_of_paths(states: torch.Tensor, discount: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return states (T·m, 2) of paths (T, m, 2) and their discounted shares; an end takes nothing away."""
    T, m, _ = states.shape
    shares = discount ** torch.arange(T, dtype=torch.float64)
    return states.reshape(-1, 2), (shares / (m * shares.sum())).repeat_interleave(m)


def total_variation(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return half the sum of differences of shares by cell.

    Example:
        >>> total_variation(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))
        0.5
    """
    return 0.5 * float((first - second).abs().sum())


def measure_portrait(
    size: int, seed: int, mode: Mode, *, config: TrainingConfig | None = None
) -> tuple[dict[str, Any], Transitions]:
    """Train on a grid of the pendulum, and return the portraits before and after with the data.

    Args:
        size: Of the grid, one of `PENDULUM_GRIDS`.
        seed: Of the first weights.
        mode: 'ours' and 'paper' set nothing; 'faithful' is the paper's recipe and its 300 updates.
        config: Of the training, if not that of the mode.
    """
    data = collect_grid(Pendulum(), PENDULUM_GRIDS[size])
    first = MLPPolicy.from_data(data.features, data.actions, rng=generator(seed, "policy"))
    if mode == "faithful":
        h = released_bandwidths(data, action_factor=50.0)
        config = config or TrainingConfig(updates=_FAITHFUL_UPDATES, seed=seed, start="given", progress=False)
        model = PaperModel.Config(bandwidths=h, prior_mass=0.0)
        result = optimize(data, _DISCOUNT, model=model, config=config)
    else:
        config = config or TrainingConfig(seed=seed, progress=False)
        result = optimize(data, _DISCOUNT, model="local" if mode == "ours" else "paper", config=config)
    before = result.problem.solve(first, seed=seed)
    path = _paths(result.policy.policy, data).states[:_PATH_STEPS, 0]
    return {
        "before": _portrait(before, data),
        "after": _portrait(result.solution, data),
        "path": _rounded(torch.stack([_wrapped(path[:, 0]), path[:, 1]], dim=1), 4),
        "updates": len(result.history),
    }, data


@dataclass(frozen=True, slots=True, kw_only=True)
class PortraitStudy(Experiment):
    """The portraits of a few trainings, and their distance from the truth."""

    def plan(self) -> list[Record]:
        """Return the runs."""
        return [self.run("nopg-d", _SIZE, seed, mode) for seed in range(_TRIALS) for mode in MODES]

    def measure(self, run: Record) -> tuple[dict[str, Any], Transitions]:
        """Train, and draw up the portraits."""
        return measure_portrait(run.rows, run.seed, mode_of(run))

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return one row per record."""
        return table(_HEADS, [_row(record) for record in records]) if records else []

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return whether the upright is foreseen, and how near the truth μ̃ is."""
        mine = [r.results for r in records if mode_of(r) == "ours"]
        masses = [(r["before"]["upright_mass"], r["after"]["upright_mass"]) for r in mine]
        apart = [r["after"]["total_variation"] for r in mine]
        risen = ", ".join(f"{x:.2g} → {y:.2g}" for x, y in masses)
        return [
            Finding.of(
                "After training, μ̃ within .5 rad of upright is ten times what it was",
                risen or "not run",
                done=bool(mine),
                kept=all(y >= 10 * x for x, y in masses),
            ),
            Finding.of(
                "μ̃ after training within .1 of the truth in total variation",
                ", ".join(f"{x:.3f}" for x in apart) or "not run",
                done=bool(mine),
                kept=max(apart, default=1.0) <= 0.1,
            ),
        ]

    def draw(self, records: Sequence[Record]) -> Any:
        """Return the portraits of the first run."""
        from studies.paper._portrait_figure import draw_portrait

        return draw_portrait(records)


def _row(record: Record) -> list[str]:
    before, after = record.results["before"], record.results["after"]
    ratio = after["upright_mass"] / before["upright_mass"] if before["upright_mass"] > 0 else math.inf
    return [
        mode_of(record),
        str(record.rows),
        str(record.seed),
        f"{before['upright_mass']:.2g} → {after['upright_mass']:.2g}",
        f"{ratio:.3g}",
        f"{before['upright_mass_truth']:.2g} → {after['upright_mass_truth']:.2g}",
        f"{before['total_variation']:.2f}, {after['total_variation']:.2f}",
        *(f"{part['expected_return']:.1f} / {part['discounted_truth']:.1f}" for part in (before, after)),
    ]


def _portrait(solution: Solution, data: Transitions) -> dict[str, Any]:
    """Return what one policy looks like in the model and in truth."""
    runs = _paths(solution.policy, data)
    model, truth = solution.visited(), visits_of_paths(runs.states[:-1], _DISCOUNT)
    there, then = cells_of(*model), cells_of(*truth)
    lattice = data.schema.encode(_lattice())
    return {
        "visitation": _rounded(there, 4),
        "truth": _rounded(then, 4),
        "value": _rounded(solution.value(lattice).reshape(_LATTICE, _LATTICE), 4),
        "unknown": _rounded(solution.unknown_at(lattice).reshape(_LATTICE, _LATTICE), 2),
        "upright_mass": _number(upright_share(*model)),
        "upright_mass_truth": _number(upright_share(*truth)),
        "total_variation": _number(total_variation(there, then)),
        "expected_return": _number(solution.expected_return),
        "discounted_truth": _number(runs.discounted_returns(_DISCOUNT).item()),
    }


def _paths(policy: Policy, data: Transitions) -> Trajectories:
    """Return what the true pendulum does from the start; nothing is drawn, so one path is all there is."""
    return simulate(Pendulum(), control_law(policy, data.schema), steps=_STEPS, initial_states=data.starts)


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
