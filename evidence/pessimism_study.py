"""What the prior mass does: `python -m evidence.pessimism_study` writes docs/pessimism.md.

Three questions, for both transition models and with the default β against 0: whether gains of an unstable
plant that leave the data are put behind those that stay; whether a cart that drifts away is found out; and
what the default costs where nothing leaves the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from evidence.study import run_study
from nopg import optimize
from nopg._seeding import generator
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem
from nopg.data import Transitions
from nopg.environments import CartPole, balancing_feedback
from nopg.evaluation import Imagination, OfflineEvaluator, PolicyLaw
from nopg.experiments import TASKS, Task
from nopg.experiments._tasks import MOUNTAIN_CAR, PENDULUM_GRID
from nopg.graph import DEFAULT_PRIOR_MASS, LocalLinear, NadarayaWatson, TransitionModel
from nopg.policies import LinearPolicy
from nopg.rollouts import simulate

_Name = Literal["nadaraya-watson", "local-linear"]
_MODELS: tuple[_Name, ...] = ("nadaraya-watson", "local-linear")
_POLE, _DISCOUNT = 1.2, 0.95
_GAINS = (-1.2, -0.9, -0.7, -0.5, -0.3, -0.15, -0.1, 0.0, 0.2, 0.5, 1.0, -1.9, -2.3, -2.5, -3.0)
_PLANT_SEEDS = range(5)
_TRAINED: tuple[tuple[Task, int], ...] = ((PENDULUM_GRID, 450), (MOUNTAIN_CAR, 2))
_TRAINING_SEEDS = range(2)


def _model(name: _Name, data: Transitions, *, pessimistic: bool) -> TransitionModel:
    h = select_bandwidths(data)
    if name == "local-linear":
        return LocalLinear(data, h.state_kernel, prior_mass=None if pessimistic else 0.0)
    return NadarayaWatson(data, h, prior_mass=DEFAULT_PRIOR_MASS if pessimistic else 0.0)


def _problem(model: TransitionModel, data: Transitions, discount: float) -> ControlProblem:
    return ControlProblem.build(model, data.schema.encode(data.starts), discount=discount)


def _logged_plant(seed: int) -> Transitions:
    """Return 40 episodes of 10 steps of x′ = 1.2 x + u + noise under u = −.7 x + noise, begun within ±1."""
    rng = generator(seed, "unstable plant")
    x = 2.0 * torch.rand(40, 1, dtype=torch.float64, generator=rng) - 1.0
    columns: list[tuple[torch.Tensor, ...]] = []
    for _ in range(10):
        noise = torch.randn(2, 40, 1, dtype=torch.float64, generator=rng)
        u = -0.7 * x + 0.3 * noise[0]
        columns.append((x, u, _POLE * x + u + 0.02 * noise[1]))
        x = columns[-1][2]
    s, a, s_next = (torch.stack(part, dim=1).reshape(-1, 1) for part in zip(*columns, strict=True))
    return Transitions.from_arrays(
        s,
        a,
        -s[:, 0].square() - 0.1 * a[:, 0].square(),
        s_next,
        episodes=torch.arange(40).repeat_interleave(10),
        initial_states=[[-0.8], [-0.4], [0.4], [0.8]],
    )


def _gains() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for seed in _PLANT_SEEDS:
        data = _logged_plant(seed)
        low, high = float(data.actions.min()), float(data.actions.max())
        for name in _MODELS:
            for pessimistic in (True, False):
                problem = _problem(_model(name, data, pessimistic=pessimistic), data, _DISCOUNT)
                for gain in _GAINS:
                    solution = problem.equation(LinearPolicy([[gain]]), generator(0, "actions")).solve()
                    first = gain * data.starts
                    records.append(
                        {
                            "seed": seed,
                            "model": name,
                            "pessimistic": pessimistic,
                            "gain": gain,
                            "stable": abs(_POLE + gain) < 1.0,
                            "inside": bool(((first >= low) & (first <= high)).all()),
                            "predicted": solution.expected_return,
                            "unknown": solution.unknown_mass,
                        }
                    )
    return records


def _carts() -> list[dict[str, Any]]:
    """Return what is said of a cart that holds its place, and of one that balances and drifts away."""
    task = TASKS["cart-pole"]
    plant = task.plant
    assert isinstance(plant, CartPole)
    feedback = balancing_feedback(plant)
    blind = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    laws: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "holds its place": lambda states: feedback(states).clamp(-5.0, 5.0),
        "drifts away": lambda states: (feedback(states * blind) + 0.3).clamp(-5.0, 5.0),
    }
    records: list[dict[str, Any]] = []
    for seed in range(2):
        data = task.data(1_500, seed)
        evaluator = OfflineEvaluator(data, task.discount, imagination=Imagination(halves=0))
        imagined = {name: evaluator.evaluate(law).pessimistic_return for name, law in laws.items()}
        for name in _MODELS:
            for pessimistic in (True, False):
                problem = _problem(_model(name, data, pessimistic=pessimistic), data, task.discount)
                for law_name, law in laws.items():
                    policy = PolicyLaw(law, data.schema)
                    solution = problem.equation(policy, generator(0, "actions")).solve()
                    runs = simulate(plant, law, steps=1_000, initial_states=data.starts)
                    records.append(
                        {
                            "seed": seed,
                            "model": name,
                            "pessimistic": pessimistic,
                            "law": law_name,
                            "predicted": solution.expected_return,
                            "unknown": solution.unknown_mass,
                            "imagined": imagined[law_name],
                            "came": float(runs.discounted_returns(task.discount).mean()),
                            "steps": float(runs.alive.double().sum(dim=0).mean()),
                        }
                    )
    return records


def _trainings() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for task, size in _TRAINED:
        for seed in _TRAINING_SEEDS:
            data = task.data(size, seed)
            for name in _MODELS:
                for pessimistic in (True, False):
                    result = optimize(
                        data,
                        task.discount,
                        model=name,
                        prior_mass=None if pessimistic else 0.0,
                        updates=300,
                        seed=seed,
                        progress=False,
                    )
                    records.append(
                        {
                            "task": task.name,
                            "size": size,
                            "seed": seed,
                            "model": name,
                            "pessimistic": pessimistic,
                            "return": task.evaluate(result.policy, seed).mean,
                        }
                    )
                    print(records[-1], flush=True)
    return records


def _measure() -> dict[str, Any]:
    torch.set_num_threads(1)
    return {"gains": _gains(), "carts": _carts(), "trainings": _trainings()}


def _beta(record: dict[str, Any]) -> str:
    return "default" if record["pessimistic"] else "0"


def _misordered(records: list[dict[str, Any]], *, inside: bool) -> tuple[int, int]:
    """Return how many pairs put a gain that destabilises above one that stabilises, and of how many.

    Args:
        records: Of one model and β.
        inside: Whether to leave out gains that stabilise with actions outside those logged.
    """
    pairs = wrong = 0
    for seed in {record["seed"] for record in records}:
        mine = [record for record in records if record["seed"] == seed]
        good = [
            record["predicted"] for record in mine if record["stable"] and (record["inside"] or not inside)
        ]
        bad = [record["predicted"] for record in mine if not record["stable"]]
        pairs += len(good) * len(bad)
        wrong += sum(b >= g for g in good for b in bad)
    return wrong, pairs


def _markdown(found: dict[str, Any]) -> str:
    lines = [
        "# Pessimism, measured",
        "",
        "Made by `python -m evidence.pessimism_study` from `results/pessimism.json`; do not edit.",
        "",
        "The prior mass β sends what the data cannot account for to an unknown state of the worst value "
        "([record 3](decisions/0003-prior-mass.md)). It is no guaranteed lower bound: inside the data it "
        "adds next to nothing, however few or noisy the rows are, and a crash may cost more than the "
        "worst reward on record. "
        "Nor does it find every policy that leaves the data: see the cart below.",
        "",
        "## An unstable plant",
        "",
        "x′ = 1.2 x + u + noise, logged under u = −.7 x + noise within |x| ≤ 1, 400 rows, five logs; "
        "γ = .95, starts ±.4 and ±.8. u = k x is stable for −2.2 < k < −.2. Counted are pairs in which Ĵ of "
        "a gain that destabilises is not below that of one that stabilises and asks "
        "for no action outside those logged.",
        "",
        "| model | β | out of order | of all pairs | median Ĵ, k = −.9 | k = −.1 | k = −2.5 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in _MODELS:
        for pessimistic in (True, False):
            records = [
                record
                for record in found["gains"]
                if (record["model"], record["pessimistic"]) == (name, pessimistic)
            ]
            within, everywhere = (
                "{} of {}".format(*_misordered(records, inside=inside)) for inside in (True, False)
            )
            medians = [
                float(torch.tensor([r["predicted"] for r in records if r["gain"] == gain]).median())
                for gain in (-0.9, -0.1, -2.5)
            ]
            shown = " | ".join(f"{value:.3g}" for value in medians)
            lines.append(f"| {name} | {_beta(records[0])} | {within} | {everywhere} | {shown} |")
    lines += [
        "",
        "The first count leaves out k = −1.9, which stabilises by actions that were never logged. Of all "
        "pairs the paper's model with the default β puts k = −.15 and −.1, which leave the data slowly, "
        "above it; with β = 0 it puts k = −2.3 above −.3. The local-linear model orders all of them with "
        "either β; its default lowers the value of good gains, probably since few rows stand at the starts: "
        "without noise k = −.9 earns −.47.",
        "",
        "## A cart that drifts away",
        "",
        "Cart-pole at 50 Hz, 1 500 random steps within some 7 cm of the middle, γ = .99. One feedback "
        "balances and holds its place; the other balances, does not look at the place, and pushes to one "
        "side.",
        "",
        "| data | law | model | β | Ĵ | unknown mass | along imagined paths | came | steps of 1 000 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['seed']} | {r['law']} | {r['model']} | {_beta(r)} | {r['predicted']:.1f} | "
        f"{r['unknown']:.1%} | {r['imagined']:.1f} | {r['came']:.1f} | {r['steps']:.0f} |"
        for r in found["carts"]
    ]
    lines += [
        "",
        "The equation does **not** tell the two apart, with either β. The likely cause is that its weights "
        "spread the value by a whole width of the interpolation in every step, and a drift of some cm/s is a "
        "small part of that ([record 13](decisions/0013-a-greedy-start.md)): the paper's model sees no mass "
        "leave, and the unknown mass of the local-linear one falls on both laws alike. Along imagined paths, "
        "where nothing is interpolated, leaving the data at the worst value does tell them apart: that "
        "column is `OfflineEvaluation.pessimistic_return`. Trust it, not Ĵ, where steps are short.",
        "",
        "## What it costs",
        "",
        "Return on the true plant after trainings of at most 300 updates, one seed after the other.",
        "",
        "| task | model | default β | β = 0 |",
        "|---|---|---|---|",
    ]
    for task, size in {(r["task"], r["size"]): None for r in found["trainings"]}:
        for name in _MODELS:
            cells = []
            for pessimistic in (True, False):
                returns = [
                    f"{r['return']:.1f}"
                    for r in found["trainings"]
                    if (r["task"], r["model"], r["pessimistic"]) == (task, name, pessimistic)
                ]
                cells.append(", ".join(returns))
            lines.append(f"| {task} {size} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_study("pessimism", _measure, _markdown, description=__doc__)
