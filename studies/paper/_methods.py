"""Every method of the comparison, from the same data to snapshots of its controller."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import torch

from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.baselines import OfflineMethod, Snapshot, train_offline
from nopg.data import Transitions
from nopg.errors import SolverError
from nopg.policies import ActionRange, GaussianMLPPolicy, MLPPolicy, Policy, Standardizer
from nopg.policies._networks import MLP
from nopg.training import Controller, TrainingResult, Update, optimize
from nopg.training._ascent import ascend
from studies.baselines import PWIS, train_online_ddpg
from studies.paper._tasks import RandomTask, Task
from studies.paper.bandwidths import released_bandwidths

__all__ = ["FAITHFUL", "METHODS", "PAPER", "Method", "Needs"]

Needs = Literal["transitions", "trajectories", "simulator"]
"""What a method asks for: any transitions; trajectories with the behaviour's density; the plant itself."""

Train = Callable[[Task, Transitions, int, int], list[Snapshot]]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to get a controller.

    Attributes:
        name: As on the command line.
        label: As in a table.
        needs: What it must be given.
        deterministic: Whether it can train deterministic policies.
        updates: How many by default, online of steps; ten snapshots are taken on the way, of NOPG with our
            defaults the last one.
        source: Whose settings these are.
        train: Task, data, seed and updates in, snapshots out.
    """

    name: str
    label: str
    needs: Needs
    deterministic: bool
    updates: int
    source: str
    train: Train


_SNAPSHOTS = 10
# Online: rollouts of the supplement's length, and a snapshot every 10 000 steps of the pendulum.
_ROLLOUT_STEPS, _ONLINE_SNAPSHOTS = 1_000, 30


def _ours(kind: Literal["deterministic", "gaussian"], model: Literal["local", "paper"] = "local") -> Train:
    """NOPG as a user gets it who sets nothing: one controller, the one that `optimize` returns."""

    def train(task: Task, data: Transitions, seed: int, updates: int) -> list[Snapshot]:
        began = time.perf_counter()
        result = optimize(
            data,
            task.discount,
            policy=kind,
            model=model,
            config=TrainingConfig(updates=updates, seed=seed, progress=False),
        )
        seconds = time.perf_counter() - began
        return [Snapshot(len(result.history), len(data), seconds, result.policy, result)]

    return train


def _faithful(kind: Literal["deterministic", "gaussian"]) -> Train:
    """NOPG by the supplement: its bandwidths, its network on raw inputs, its number of updates, β = 0."""

    def train(task: Task, data: Transitions, seed: int, updates: int) -> list[Snapshot]:
        recipe, rng = task.recipe, generator(seed, "policy")
        width, num_actions = data.features.shape[1], data.actions.shape[1]
        as_they_are = Standardizer(torch.zeros(width), torch.ones(width))
        low, high = task.plant.action_low, task.plant.action_high
        policy: Policy
        if kind == "deterministic":
            policy = MLPPolicy(MLP(as_they_are, num_actions, rng=rng), ActionRange(low, high))
        else:
            policy = GaussianMLPPolicy(
                MLP(as_they_are, 2 * num_actions, rng=rng),
                ActionRange(low, high),
                largest_std=recipe.largest_std,
                num_action_samples=recipe.num_action_samples,
            )
        taken = _Snapshots(policy, data, updates)
        result = optimize(
            data,
            task.discount,
            model=PaperModel.Config(
                bandwidths=released_bandwidths(
                    data, state_factor=recipe.state_factor, action_factor=recipe.action_factor
                ),
                prior_mass=0.0,
            ),
            policy=policy,
            config=TrainingConfig(
                updates=updates,
                learning_rate=recipe.learning_rate,
                seed=seed,
                start="given",
                callbacks=[taken],
                stop=lambda _: False,
                progress=False,
            ),
        )
        return taken.all_of(result)

    return train


def _pwis(task: Task, data: Transitions, seed: int, updates: int) -> list[Snapshot]:
    policy = GaussianMLPPolicy.from_data(data.features, data.actions, rng=generator(seed, "policy"))
    taken = _Snapshots(policy, data, updates)
    plant = task.plant
    estimator = PWIS(task.logged(data), task.discount, low=plant.action_low, high=plant.action_high)
    # Where weights are beyond what numbers hold, what it had learned before counts.
    with contextlib.suppress(SolverError):
        ascend(
            estimator,
            policy,
            TrainingConfig(
                updates=updates,
                learning_rate=task.recipe.pwis_learning_rate,
                seed=seed,
                callbacks=[taken],
            ),
        )
    return taken.all_of()


def _offline(method: OfflineMethod) -> Train:
    def train(task: Task, data: Transitions, seed: int, updates: int) -> list[Snapshot]:
        return train_offline(
            method, data, discount=task.discount, updates=updates, snapshots=_SNAPSHOTS, seed=seed
        )

    return train


def _online(task: Task, data: Transitions, seed: int, updates: int) -> list[Snapshot]:
    del data  # it collects its own
    assert isinstance(task, RandomTask)
    return train_online_ddpg(
        task.plant,
        discount=task.discount,
        steps=updates,
        episode_steps=_ROLLOUT_STEPS,
        snapshots=_ONLINE_SNAPSHOTS,
        seed=seed,
    )


class _Snapshots:
    """A callback that copies the policy ten times in a training, and at its end."""

    def __init__(self, policy: Policy, data: Transitions, updates: int) -> None:
        self._policy, self._data, self._every = policy, data, max(updates // _SNAPSHOTS, 1)
        self._taken: list[Snapshot] = []
        self._done, self._began = 0, time.perf_counter()

    def __call__(self, update: Update) -> bool:
        self._done = update.number
        if update.number % self._every == 0:
            self._take()
        return False

    def all_of(self, result: TrainingResult | None = None) -> list[Snapshot]:
        """Return them, the last one after the last update: what the training returned, if it is given."""
        if not self._taken or self._taken[-1].updates < self._done:
            self._take()
        if result is not None:
            self._taken[-1] = replace(self._taken[-1], controller=result.policy, model=result)
        return self._taken

    def _take(self) -> None:
        controller = Controller(copy.deepcopy(self._policy), self._data.schema)
        seconds = time.perf_counter() - self._began
        self._taken.append(Snapshot(self._done, len(self._data), seconds, controller, controller.policy))


def _by_name(*methods: Method) -> Mapping[str, Method]:
    return MappingProxyType({method.name: method for method in methods})


_OURS, _SUPPLEMENT = "ours, nothing set", "the supplement"

METHODS: Mapping[str, Method] = _by_name(
    Method("nopg-d", "NOPG-D", "transitions", True, 60, _OURS, _ours("deterministic")),
    Method("nopg-s", "NOPG-S", "transitions", True, 60, _OURS, _ours("gaussian")),
    Method("pwis", "PWIS", "trajectories", False, 2_000, _SUPPLEMENT, _pwis),
    Method("ddpg-offline", "DDPG offline", "transitions", True, 2_000, _SUPPLEMENT, _offline("ddpg")),
    Method("ddpg-online", "DDPG online", "simulator", True, 20_000, _SUPPLEMENT, _online),
)
"""By name, in the order of the table."""

PAPER: Mapping[str, Method] = _by_name(
    Method("nopg-d", "NOPG-D", "transitions", True, 1_500, _OURS, _ours("deterministic", "paper")),
    Method("nopg-s", "NOPG-S", "transitions", True, 1_500, _OURS, _ours("gaussian", "paper")),
)
"""NOPG with the paper's model, nothing set."""

FAITHFUL: Mapping[str, Method] = _by_name(
    Method("nopg-d", "NOPG-D", "transitions", True, 1_500, _SUPPLEMENT, _faithful("deterministic")),
    Method("nopg-s", "NOPG-S", "transitions", True, 1_500, _SUPPLEMENT, _faithful("gaussian")),
)
"""NOPG as the supplement sets it."""
