"""From a case to the problem and the policy that the update works on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import chdir
from typing import Any

import numpy as np
import torch

import nopg
from nopg import Bandwidths, Transitions
from nopg._seeding import generator
from nopg.bellman import PaperProblem
from nopg.data.io import from_gymnasium
from nopg.envs import Pendulum, collect_uniform
from nopg.models import PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._footprint import Footprint
from nopg.models._row_order import next_state_order
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from studies.bench.cases import Case

__all__ = [
    "PRIOR_MASS",
    "collected",
    "new_policy",
    "new_problem",
    "predicted_bytes",
    "prepared",
    "select",
]

PRIOR_MASS = 1e-6

_ENVIRONMENTS = {"swimmer": "Swimmer-v5", "halfcheetah": "HalfCheetah-v5"}
_EPISODE_STEPS = 1_000


def collected(task: str, transitions: int) -> Transitions:
    """Return the transitions of a task, always the same ones.

    The pendulum's are uniformly random. Swimmer (8 observations, 2 actions) and half-cheetah (17 and 6) run
    in episodes of 1 000 steps, each under a linear policy whose gains are drawn anew.
    """
    if task == "pendulum":
        return collect_uniform(Pendulum(), transitions, seed=0)
    episodes = -(-transitions // _EPISODE_STEPS)
    # MuJoCo leaves its log where it runs.
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        data = from_gymnasium(_ENVIRONMENTS[task], _random_linear_policy(task), episodes=episodes, seed=0)
    return data.take(torch.arange(transitions))


def _random_linear_policy(task: str) -> Callable[[Any], Any]:
    import gymnasium

    world: Any
    with gymnasium.make(_ENVIRONMENTS[task]) as world:
        shape = (*world.action_space.shape, *world.observation_space.shape)
    rng = np.random.default_rng(0)
    gains, step = np.zeros(shape), 0

    def act(observation: Any) -> Any:
        nonlocal gains, step
        if step % _EPISODE_STEPS == 0:  # neither task ends before its time limit
            gains = rng.normal(size=shape) / np.sqrt(shape[1])
        step += 1
        return gains @ observation

    return act


def select(task: str, rows: int) -> dict[str, list[float]]:
    """Return bandwidths for a number of transitions of a task, as plain numbers.

    Leave-one-out takes minutes in 8 and 17 dimensions, and K is fixed there: Scott's rule has to do.
    """
    data = collected(task, rows)
    if task == "pendulum":
        h = nopg.select_bandwidths(data)
        return {"states": h.states.tolist(), "actions": h.actions.tolist()}
    shrinkage = rows ** (-1.0 / (data.features.shape[1] + 4))
    states, actions = (shrinkage * columns.std(dim=0) for columns in (data.features, data.actions))
    return {"states": states.tolist(), "actions": actions.tolist()}


def prepared(data: Transitions, bandwidths: Bandwidths) -> Transitions:
    """Return the rows in the order that `optimize` gives them, the declared starts as they were."""
    declared = data.starting_at(data.starts)
    return declared.take(next_state_order(declared, bandwidths.state_kernel))


def new_problem(case: Case, data: Transitions, bandwidths: Bandwidths) -> PaperProblem:
    """Return the problem; this is what building the graph takes."""
    model = PaperModel(
        data,
        bandwidths,
        prior_mass=PRIOR_MASS,
        search=CandidateSearch(num_candidates=case.candidates),
        dtype=getattr(torch, case.dtype),
    )
    return PaperProblem.build(model, data.schema.encode(data.starts), discount=case.discount)


def new_policy(case: Case, data: Transitions) -> Policy:
    """Return the untrained policy of a case."""
    kind = MLPPolicy if case.policy == "deterministic" else GaussianMLPPolicy
    return kind.from_data(data.features, data.actions, rng=generator(0, "policy"))


def predicted_bytes(problem: PaperProblem) -> float:
    """Return the predicted peak memory of the process."""
    model, nodes = problem.model, problem.model.node_queries
    return float(Footprint.of(model.data, len(nodes.features)).bytes(nodes.pattern.row_length))
