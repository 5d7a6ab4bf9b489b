"""Every method of the comparison, from the same data to snapshots of its controller."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Mapping

import torch

from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.errors import SolverError
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.training import Controller, Update, optimize
from nopg.training._ascent import ascend
from studies.baselines import PWIS, Snapshot, train_offline_ddpg, train_online_ddpg
from studies.paper._experiment import Mode, mode_of
from studies.paper._tasks import Task
from studies.paper.bandwidths import released_bandwidths
from studies.records import Record

LABELS: Mapping[str, str] = {
    "nopg-d": "NOPG-D",
    "nopg-s": "NOPG-S",
    "pwis": "PWIS",
    "ddpg-offline": "DDPG offline",
    "ddpg-online": "DDPG online",
}
"""By name, in the order of the tables."""

# Updates and snapshots of rivals; online one every 1 000 steps, in episodes of the supplement's length.
_RIVAL_UPDATES, _SNAPSHOTS = 2_000, 10
_ROLLOUT_STEPS, _ONLINE_EVERY = 1_000, 1_000


def train(run: Record, task: Task, data: Transitions) -> list[Snapshot]:
    """Return controllers on the way of a run, the last one last; of NOPG only the last."""
    method, seed = run.method, run.seed
    if method == "pwis":
        return _pwis(task, data, seed)
    if method == "ddpg-offline":
        return train_offline_ddpg(
            data, discount=task.discount, updates=_RIVAL_UPDATES, snapshots=_SNAPSHOTS, seed=seed
        )
    if method == "ddpg-online":
        return train_online_ddpg(
            task.plant,
            discount=task.discount,
            steps=run.rows,
            episode_steps=_ROLLOUT_STEPS,
            snapshots=max(run.rows // _ONLINE_EVERY, 1),
            seed=seed,
        )
    return [_nopg(task, data, seed, mode_of(run), gaussian=method == "nopg-s")]


def _nopg(task: Task, data: Transitions, seed: int, mode: Mode, *, gaussian: bool) -> Snapshot:
    """Return NOPG's controller: by `optimize` with nothing set, or by the supplement."""
    began = time.perf_counter()
    if mode == "faithful":
        recipe = task.recipe
        h = released_bandwidths(data, action_factor=recipe.action_factor)
        result = optimize(
            data,
            task.discount,
            model=PaperModel.Config(bandwidths=h, prior_mass=0.0),
            policy=_supplements_policy(task, data, seed, gaussian=gaussian),
            config=TrainingConfig(
                updates=recipe.updates,
                learning_rate=1e-2,
                seed=seed,
                progress=False,
            ),
        )
    else:
        result = optimize(
            data,
            task.discount,
            policy="gaussian" if gaussian else "deterministic",
            model="paper" if mode == "paper" else "local",
            config=TrainingConfig(seed=seed, progress=False),
        )
    return Snapshot(len(result.history), len(data), time.perf_counter() - began, result.policy, result)


def _supplements_policy(task: Task, data: Transitions, seed: int, *, gaussian: bool) -> Policy:
    """Return the supplement's network on raw inputs."""
    width, num_actions, rng = data.features.shape[1], data.actions.shape[1], generator(seed, "policy")
    as_they_are = Standardizer(torch.zeros(width), torch.ones(width))
    bounds = ActionRange(task.plant.action_low, task.plant.action_high)
    if not gaussian:
        return MLPPolicy(MLP(as_they_are, num_actions, rng=rng), bounds)
    return GaussianMLPPolicy(
        MLP(as_they_are, 2 * num_actions, rng=rng),
        bounds,
        largest_std=1.0,
        num_action_samples=task.recipe.num_action_samples,
    )


def _pwis(task: Task, data: Transitions, seed: int) -> list[Snapshot]:
    policy = GaussianMLPPolicy.from_data(data.features, data.actions, rng=generator(seed, "policy"))
    estimator = PWIS(task.logged(data), task.discount, low=task.plant.action_low, high=task.plant.action_high)
    taken, done, began = list[Snapshot](), 0, time.perf_counter()

    def take() -> None:
        controller = Controller(copy.deepcopy(policy), data.schema)
        taken.append(Snapshot(done, len(data), time.perf_counter() - began, controller, controller.policy))

    def follow(update: Update) -> bool:
        nonlocal done
        done = update.number
        if done % (_RIVAL_UPDATES // _SNAPSHOTS) == 0:
            take()
        return False

    # Where weights are beyond what numbers hold, what it had learned before counts.
    with contextlib.suppress(SolverError):
        ascend(
            estimator,
            policy,
            TrainingConfig(
                updates=_RIVAL_UPDATES,
                learning_rate=task.recipe.pwis_learning_rate,
                seed=seed,
                callbacks=[follow],
            ),
        )
    if not taken or taken[-1].updates < done:
        take()
    return taken
