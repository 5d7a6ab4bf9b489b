"""The methods of the benchmark, each from a log to a controller."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

import nopg
from nopg._stream import ControllerStream
from nopg.baselines import baseline
from nopg.errors import NopgError
from nopg.evaluation import control_law
from nopg.planning import Planner, PlannerConfig
from studies.engineers.neural_mpc import NeuralMPC, NeuralMPCConfig
from studies.engineers.task import EPISODES, Task
from studies.plants.laws import Array, Behaviour, Law

# Baselines among which `judge` chooses, beside the log and ours.
_JUDGED = ("cloning", "lqr", "mpc")
# Planning at every step is slow; these episodes have the first of the starts of the others.
_PLANNED_EPISODES = 16
# As many steps as `neural-mpc` plans.
_PLANNER = PlannerConfig(horizon=NeuralMPCConfig().horizon, candidates=16, iterations=3)
_PREDICTED = ("expected_return", "interval", "standard_error", "unknown_mass", "verdict", "reasons")


@dataclass(frozen=True, slots=True)
class Trained:
    """A controller with what is known about it."""

    controller: Behaviour  # Makes the controller of some episodes.
    summary: Mapping[str, Any] = field(default_factory=dict)  # What was predicted; empty for rivals.
    warnings: tuple[str, ...] = ()  # Text of the warnings raised.
    results: Mapping[str, Any] = field(default_factory=dict)  # What else was measured.
    episodes: int = EPISODES  # Episodes in which it is evaluated.
    policy: Any = None  # What the judge can evaluate; None for rivals.


Method = Callable[[Task, nopg.Transitions, int], Trained]


def applies(method: str, task: Task) -> bool:
    """Tell whether a method can be used on a task: a PI rule needs one input and one output."""
    return method != "simc" or task.output is not None


def _static(law: Callable[[Any], Any]) -> Behaviour:
    def act(states: Array) -> Array:
        return np.asarray(law(torch.as_tensor(states)), dtype=np.float64)

    return lambda episodes, rng: act


def _baseline(name: str, task: Task, data: nopg.Transitions, seed: int, *, seeded: bool = True) -> Trained:
    made = baseline(name, data, task.discount, **({"seed": seed} if seeded else {}))
    return Trained(_static(control_law(made, data.schema)))


def _simc(task: Task, data: nopg.Transitions, seed: int) -> Trained:
    assert task.output is not None
    plant, (action,) = task.plant, task.plant.actions
    target = plant.target[list(plant.states).index(task.output)]
    derived = data.derive(lags={task.output: 1, action: 1})
    rule = baseline("simc", derived, task.discount, output=task.output, set_point=target)
    law = control_law(rule, derived.schema)

    def within(states: Any) -> Array:
        # Lags hold actions as they were applied.
        asked = np.asarray(law(torch.as_tensor(states)))
        return np.asarray(np.clip(asked, plant.action_low, plant.action_high))

    def make(episodes: int, rng: np.random.Generator) -> Law:
        return ControllerStream(within, derived.schema, batch=episodes).act

    return Trained(make, results=rule.gains)


def _neural_mpc(task: Task, data: nopg.Transitions, seed: int) -> Trained:
    planner = NeuralMPC(data, task.discount, seed)
    return Trained(lambda episodes, rng: planner.controller(episodes), episodes=_PLANNED_EPISODES)


def _planner(task: Task, data: nopg.Transitions, seed: int) -> Trained:
    config = nopg.TrainingConfig(seed=seed, progress=False)
    planner = Planner(nopg.optimize(data, task.discount, config=config).solution, _PLANNER)

    def make(episodes: int, rng: np.random.Generator) -> Law:
        controller = planner.controller()
        return lambda states: np.asarray(controller.act(states), dtype=np.float64)

    return Trained(make, episodes=_PLANNED_EPISODES)


def _nopg(task: Task, data: nopg.Transitions, seed: int) -> Trained:
    """Return what `optimize` makes of the log with nothing set."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        config = nopg.TrainingConfig(seed=seed, progress=False)
        result = nopg.optimize(data, task.discount, config=config)
        facts = {name: getattr(result.evaluation, name) for name in _PREDICTED}
        facts |= {"start": result.start, "behaviour_return": result.evaluator.logged().expected_return}
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in raised)
    return Trained(_static(result.policy), facts, tuple(texts), policy=result.policy)


def judge(policy: Any, task: Task, data: nopg.Transitions) -> dict[str, Any]:
    """Return the choice of `nopg.compare` among our policy, the baselines and the log, with its reasons."""
    began = time.process_time()
    possible = [name for name in _JUDGED if _is_possible(name, data, task.discount)]
    found = nopg.compare({"nopg": policy}, data, task.discount, baselines=possible)
    evaluations = {
        name: {"expected_return": one.expected_return, "interval": one.interval, "verdict": one.verdict}
        for name, one in found.evaluations.items()
    }
    gains = {name: one.mean for name, one in found.gains.items()}
    seconds = round(time.process_time() - began, 2)
    return {"choice": found.best, "evaluations": evaluations, "gains": gains, "cpu_seconds": seconds}


def _is_possible(name: str, data: nopg.Transitions, discount: float) -> bool:
    try:
        baseline(name, data, discount)
    except NopgError:
        return False
    return True


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "cloning": partial(_baseline, "cloning", seeded=False),
        "lqr": partial(_baseline, "lqr", seeded=False),
        "mpc": partial(_baseline, "mpc", seeded=False),
        "simc": _simc,
        "nopg": _nopg,
        "neural": partial(_baseline, "neural"),
        "neural-mpc": _neural_mpc,
        "planner": _planner,
        "td3bc": partial(_baseline, "td3bc"),
        "iql": partial(_baseline, "iql"),
    }
)
"""What is trained on a log, cheap methods and ours first."""

CHEAP = ("cloning", "lqr", "mpc", "simc", "nopg")
"""Methods that run on all logs before the others begin."""
