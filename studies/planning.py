"""A trained network, plans on its own model and a neural-model policy gradient, on development plants.

    python -m studies.planning --plant furuta --logs 0

The network is that of `nopg.optimize`; the planner plans at every step on the model of this training, on the
arm with the network's value at the end of its plans. On the rotary pendulum both know the reward; on the arm
they learn it from the rows, as the neural models do, and a second network knows it. All run from the same
starts on the plant.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

import nopg
from nopg._seeding import generator
from nopg.models import LocalModel
from nopg.planning import Planner, PlannerConfig
from studies.markdown import table
from studies.plants.arm import ARM
from studies.plants.benchmark import Controller
from studies.plants.furuta import FURUTA
from studies.plants.logged import LoggedPlant
from studies.plants.simulation import control_law, run_plant
from studies.printing import note, say
from studies.records import FOLDER, Record, append, code_version, last_of_each, read
from studies.rivals import RIVALS
from studies.seeds import asked_for, study_parser

__all__ = ["METHODS", "STUDY", "main", "page"]

STUDY = "planning"
_PLANTS = {plant.name: plant for plant in (FURUTA, ARM)}
_KNOWN_REWARD = (FURUTA.name,)
_ROWS, _STEPS = 5_000, 120
# Starts of the runs of planners, which take minutes, the first of those of all other runs.
_PLANNED, _STARTS = 4, 100
METHODS = ("network", "network, reward known", "planner", "neural")
"""What is run; where the reward is known anyway, there is no second network, and no neural model."""
_PLANNER = PlannerConfig(horizon=60)
# The value of a network that does not hold the pendulum misleads.
_CONFIGS = {FURUTA.name: replace(_PLANNER, end_value=False)}
# Upright: the cosine of the angle, over the last steps of a run.
_UPRIGHT, _HELD = 0.9, 25


def run(plant: LoggedPlant, seed: int, methods: Sequence[str] = METHODS) -> Iterator[Record]:
    """Yield the records of one log."""
    torch.set_num_threads(1)
    data, known = plant.data(_ROWS, seed), plant.name in _KNOWN_REWARD
    if {"network", "planner"} & {*methods}:
        began = time.process_time()
        trained = _trained(plant, data, seed, known=known)
        if "network" in methods:
            yield _record(plant, seed, "network", trained.policy, began)
        if "planner" in methods:
            began = time.process_time()
            planner = Planner(trained.solution, _CONFIGS.get(plant.name, _PLANNER))
            yield _record(plant, seed, "planner", planner.controller().act, began)
    if "network, reward known" in methods and not known:
        began = time.process_time()
        policy = _trained(plant, data, seed, known=True).policy
        yield _record(plant, seed, "network, reward known", policy, began)
    if "neural" in methods and not known:
        began = time.process_time()
        yield _record(plant, seed, "neural", RIVALS["neural"](data, plant.discount, seed), began)


def _trained(plant: LoggedPlant, data: nopg.Transitions, seed: int, *, known: bool) -> nopg.TrainingResult:
    return nopg.optimize(
        data,
        plant.discount,
        model=LocalModel.Config(reward=plant.plant.reward if known else None),
        config=nopg.TrainingConfig(seed=seed, progress=False),
    )


def _record(plant: LoggedPlant, seed: int, method: str, controller: Controller, began: float) -> Record:
    starts = _PLANNED if method == "planner" else _STARTS
    found = _returns(plant, controller, seed, starts)
    return Record(
        study=STUDY,
        benchmark=plant.name,
        role=plant.role,
        method=method,
        rows=_ROWS,
        seed=seed,
        commit=code_version("src/nopg"),
        cpu_seconds=round(time.process_time() - began, 2),
        episodes=starts,
        results=found,
    )


def _returns(plant: LoggedPlant, controller: Controller, seed: int, count: int) -> dict[str, float]:
    """Return what a controller earns in the first steps on the true plant, and how often it ends upright."""
    rng = generator(seed, "noise of the plant")
    starts, law = plant.starts(_STARTS, seed)[:count], control_law(controller)
    runs = run_plant(plant.plant, law, starts=starts, steps=_STEPS, noise=plant.noise, rng=rng)
    returns = plant.discount ** torch.arange(_STEPS, dtype=torch.float64) @ runs.rewards
    found = {
        "discounted": float(returns.mean()),
        "first": float(returns[:_PLANNED].mean()),
        "undiscounted": float(runs.rewards.sum(dim=0).mean()),
    }
    if "angle" in plant.plant.state_names:
        angle = runs.states[-_HELD:, :, plant.plant.state_names.index("angle")]
        found["upright"] = float((angle.cos() > _UPRIGHT).all(dim=0).double().mean())
    return found


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    first, more = f"discounted return, {_PLANNED} starts", f"{_STARTS} starts"
    heads = ("plant", "rows", "logs", "method", first, more, "upright", "CPU s")
    lines = [
        "# Planning on the model",
        "",
        "Made by `python -m studies page planning` from `results/studies/planning.jsonl`; do not edit.",
        f"True returns of {_STEPS} steps, mean over logs, on development plants, from the first {_PLANNED}",
        f"starts and, where that was run, from {_STARTS}. The planner plans {_PLANNER.horizon} steps at",
        "every step on the model of the network's training, on the arm with the network's value at the end",
        "of its plans. `neural` is the policy gradient through an ensemble of neural models. The reward is",
        "known on the rotary pendulum. On the arm it is learned from the rows, but for",
        "`network, reward known`.",
        f"Upright: share of runs that hold it in the last {_HELD} steps. CPU s: of training or planning,",
        "and of the runs.",
        "",
        *table(heads, _rows(records)),
    ]
    return "\n".join(lines) + "\n"


def _rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for key in dict.fromkeys((one.benchmark, one.rows, one.method) for one in records):
        mine = [one for one in records if (one.benchmark, one.rows, one.method) == key]
        first = np.mean([one.results.get("first", one.results["discounted"]) for one in mine])
        many = [one.results["discounted"] for one in mine if one.episodes == _STARTS]
        more = f"{np.mean(many):.4g}" if len(many) == len(mine) else ""
        held = [one.results["upright"] for one in mine if "upright" in one.results]
        seconds = np.mean([one.cpu_seconds for one in mine])
        upright = f"{np.mean(held):.0%}" if held else ""
        numbers = (f"{first:.4g}", more, upright, f"{seconds:.0f}")
        rows.append((key[0], str(key[1]), str(len(mine)), key[2], *numbers))
    return rows


def main() -> None:
    """Make the runs and print the page."""
    parser = study_parser("planning", __doc__, _PLANTS, logs="0")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="all by default")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for plant, seed in asked_for(given, _PLANTS):
        note(f"{plant.name}, log {seed}")
        for record in run(plant, seed, given.methods):
            append(record, FOLDER)
    say(page(last_of_each(read(FOLDER, STUDY))))


if __name__ == "__main__":
    main()
