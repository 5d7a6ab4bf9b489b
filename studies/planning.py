"""A trained network, plans on its own model and a neural-model policy gradient, on development plants.

    python -m studies.planning --plant furuta --logs 0

The network is that of `nopg.optimize`; the planner plans at every step on the model of this training, on the
arm with the network's value at the end of its plans. On the rotary pendulum both know the reward; on the arm
all three learn it from the rows. All run from the same starts on the plant.
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
from studies.seeds import plants_and_seeds

__all__ = ["STUDY", "main", "page"]

STUDY = "planning"
_PLANTS = {plant.name: plant for plant in (FURUTA, ARM)}
_KNOWN_REWARD = (FURUTA.name,)
_ROWS, _STARTS, _STEPS = 5_000, 4, 120
_PLANNER = PlannerConfig(horizon=60)
# The value of a network that does not hold the pendulum misleads.
_CONFIGS = {FURUTA.name: replace(_PLANNER, end_value=False)}
# Upright: the cosine of the angle, over the last steps of a run.
_UPRIGHT, _HELD = 0.9, 25


def run_one(plant: LoggedPlant, seed: int) -> Iterator[Record]:
    """Yield the records of one log: network, planner, and where the reward is learned the neural policy."""
    torch.set_num_threads(1)
    known, data, began = plant.name in _KNOWN_REWARD, plant.data(_ROWS, seed), time.process_time()
    trained = nopg.optimize(
        data,
        plant.discount,
        model=LocalModel.Config(reward=plant.plant.reward if known else None),
        config=nopg.TrainingConfig(seed=seed, progress=False),
    )
    yield _record(plant, seed, "network", trained.policy, began)
    planner, began = Planner(trained.solution, _CONFIGS.get(plant.name, _PLANNER)), time.process_time()
    yield _record(plant, seed, "planner", planner.controller().act, began)
    if not known:
        began = time.process_time()
        yield _record(plant, seed, "neural", RIVALS["neural"](data, plant.discount, seed), began)


def _record(plant: LoggedPlant, seed: int, method: str, controller: Controller, began: float) -> Record:
    found = _returns(plant, controller, seed)
    return Record(
        study=STUDY,
        benchmark=plant.name,
        role=plant.role,
        method=method,
        rows=_ROWS,
        seed=seed,
        commit=code_version("src/nopg"),
        cpu_seconds=round(time.process_time() - began, 2),
        episodes=_STARTS,
        results=found,
    )


def _returns(plant: LoggedPlant, controller: Controller, seed: int) -> dict[str, float]:
    """Return what a controller earns in the first steps on the true plant, and how often it ends upright."""
    rng = generator(seed, "noise of the plant")
    starts, law = plant.starts(_STARTS, seed), control_law(controller)
    runs = run_plant(plant.plant, law, starts=starts, steps=_STEPS, noise=plant.noise, rng=rng)
    weights = plant.discount ** torch.arange(_STEPS, dtype=torch.float64)
    found = {
        "discounted": float((weights @ runs.rewards).mean()),
        "undiscounted": float(runs.rewards.sum(dim=0).mean()),
    }
    if "angle" in plant.plant.state_names:
        angle = runs.states[-_HELD:, :, plant.plant.state_names.index("angle")]
        found["upright"] = float((angle.cos() > _UPRIGHT).all(dim=0).double().mean())
    return found


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    heads = ("plant", "rows", "logs", "method", "discounted return", "sum of rewards", "upright", "CPU s")
    lines = [
        "# Planning on the model",
        "",
        "Made by `python -m studies page planning` from `results/studies/planning.jsonl`; do not edit. True",
        f"returns of {_STEPS} steps from {_STARTS} starts, mean over logs, on development plants. The",
        f"planner plans {_PLANNER.horizon} steps at every step on the model of the network's training, on",
        "the arm with the network's value at the end of its plans. `neural` is the policy gradient through",
        "an ensemble of neural models. The reward is known on the rotary pendulum, not on the arm.",
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
        means = [np.mean([one.results[name] for one in mine]) for name in ("discounted", "undiscounted")]
        held = [one.results["upright"] for one in mine if "upright" in one.results]
        seconds = np.mean([one.cpu_seconds for one in mine])
        upright = f"{np.mean(held):.0%}" if held else ""
        numbers = (f"{means[0]:.4g}", f"{means[1]:.4g}", upright, f"{seconds:.0f}")
        rows.append((key[0], str(key[1]), str(len(mine)), key[2], *numbers))
    return rows


def main() -> None:
    """Make the runs and print the page."""
    warnings.simplefilter("ignore")
    for plant, seed in plants_and_seeds("planning", __doc__, _PLANTS, logs="0"):
        note(f"{plant.name}, log {seed}")
        for record in run_one(plant, seed):
            append(record, FOLDER)
    say(page(last_of_each(read(FOLDER, STUDY))))


if __name__ == "__main__":
    main()
