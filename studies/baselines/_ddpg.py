"""DDPG as the supplement sets it: of d3rlpy on a log, of Stable-Baselines3 acting in an environment."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.baselines._d3rlpy import Actor, isolated, train
from nopg.data import Schema, Transitions
from nopg.envs import ControlLaw, Environment
from nopg.errors import ArgumentError, MissingExtraError

# The units of the supplement's networks.
HIDDEN_UNITS = 50


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a training had reached; training on does not change it."""

    updates: int  # Updates of the actor so far.
    # How many transitions it has learned from: all of the data offline, the steps taken so far online.
    transitions: int
    seconds: float  # Of training so far, without the time between snapshots.
    # The policy without exploration: raw states (m, d_s) in, actions (m, d_a) out.
    controller: Callable[[torch.Tensor], ArrayLike]
    # The library's object behind it, a copy: a d3rlpy algorithm, or the policy of Stable-Baselines3.
    model: Any


def check_snapshots(what: str, count: int, snapshots: int) -> int:
    """Return how many updates or steps lie between two snapshots, or say why there is no such number."""
    if snapshots < 1 or count < 1 or count % snapshots:
        raise ArgumentError(
            f"{what} is {count} and snapshots {snapshots}; give {what} as a positive multiple of snapshots"
        )
    return count // snapshots


def train_offline_ddpg(
    data: Transitions, *, discount: float, updates: int, snapshots: int = 10, seed: int = 0
) -> list[Snapshot]:
    """Return the controllers on the way of a training, evenly over the updates, the last one last.

    Learning rates and the target update are those of the supplement; what that does not name is d3rlpy's
    default.
    """
    interval = check_snapshots("updates", updates, snapshots)
    taken, began, between = list[Snapshot](), time.perf_counter(), 0.0

    def keep(actor: Actor, done: int) -> None:
        nonlocal between
        now = time.perf_counter()
        copied = replace(actor, model=copy.deepcopy(actor.model))
        taken.append(Snapshot(done, len(data), now - began - between, copied, copied.model))
        between += time.perf_counter() - now

    train(_ddpg, data, discount, updates=updates, seed=seed, every=interval, after=keep)
    return taken


def _ddpg(common: dict[str, Any]) -> Any:
    """Return d3rlpy's settings."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory

    network = VectorEncoderFactory(hidden_units=[HIDDEN_UNITS])
    paper = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "tau": 1e-3}
    return algos.DDPGConfig(actor_encoder_factory=network, critic_encoder_factory=network, **paper, **common)


# Random actions before the first update, Stable-Baselines3's default; noise added to actions in ±1, of which
# the supplement says nothing and the library's default is none.
_WARM_UP, _NOISE = 100, 0.1


def train_online_ddpg(
    environment: Environment,
    *,
    discount: float,
    steps: int,
    episode_steps: int = 1_000,
    snapshots: int = 10,
    seed: int = 0,
) -> list[Snapshot]:
    """Train DDPG of Stable-Baselines3 by acting in an environment, with the settings of the supplement.

    One update per step after 100 random steps. Angles are encoded as cosine and sine, other columns scaled
    so that the box of the environment is ±1. What the supplement does not name (batch, buffer, warm-up) is
    the library's default. `steps` is a multiple of `snapshots`, which are returned oldest first.
    """
    interval = check_snapshots("steps", steps, snapshots)
    try:
        from stable_baselines3 import DDPG
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.noise import NormalActionNoise
    except ImportError as error:
        raise MissingExtraError("stable-baselines3", "benchmark") from error

    view = _View(environment)
    taken, seconds = [], 0.0
    with isolated(seed):
        spread = np.full(len(environment.action_names), _NOISE)
        learner = DDPG(
            "MlpPolicy",
            view.episodes(episode_steps),
            gamma=discount,
            learning_rate=1e-3,
            tau=1e-3,
            buffer_size=min(steps, 1_000_000),
            learning_starts=_WARM_UP,
            action_noise=NormalActionNoise(np.zeros_like(spread), spread),
            policy_kwargs={"net_arch": [HIDDEN_UNITS]},
            seed=seed,
            device="cpu",
        )
        # A logger without a folder; the default one makes one.
        learner.set_logger(Logger(folder=None, output_formats=[]))
        # The library knows one learning rate and sets it before every update; the supplement has another
        # for the critic.
        learner.critic.optimizer.register_step_pre_hook(_critic_learning_rate)
        for part in range(1, snapshots + 1):
            begin = time.perf_counter()
            learner.learn(interval, reset_num_timesteps=False)
            seconds += time.perf_counter() - begin

            policy, done = copy.deepcopy(learner.policy), part * interval
            taken.append(Snapshot(max(done - _WARM_UP, 0), done, seconds, view.law(policy), policy))
    return taken


def _critic_learning_rate(optimizer: torch.optim.Optimizer, args: Any, settings: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 1e-2


class _View:
    """An environment as the learner sees it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.schema = Schema(environment.state_names, environment.action_names, dict(environment.angles))
        angular = [environment.state_names[k] in self.schema.angles for k in self.schema.feature_columns]
        columns, fixed = list(self.schema.feature_columns), np.array(angular)
        low, high = environment.state_low.numpy()[columns], environment.state_high.numpy()[columns]
        self.center = np.where(fixed, 0.0, (low + high) / 2)
        self.radius = np.where(fixed, 1.0, (high - low) / 2)

    def scaled(self, features: Any) -> Any:
        """Return observations (…, d_f) of features."""
        return ((features - self.center) / self.radius).astype(np.float32)

    def episodes(self, steps: int) -> Any:
        """Return the environment for Gymnasium, truncated after this number of steps."""
        import gymnasium

        from nopg.envs.gymnasium import GymnasiumEnvironment

        space = gymnasium.spaces.Box(-np.inf, np.inf, self.center.shape, np.float32)
        seen = gymnasium.wrappers.TransformObservation(
            GymnasiumEnvironment(self.environment),
            lambda state: self.scaled(self.schema.encode(torch.as_tensor(state)).numpy()),
            space,
        )
        return gymnasium.wrappers.TimeLimit(seen, steps)

    def law(self, policy: Any) -> ControlLaw:
        """Return what maps raw states (m, d_s) to the policy's actions (m, d_a)."""

        def act(states: torch.Tensor) -> torch.Tensor:
            features = self.schema.encode(as_tensor(states)).numpy().astype(np.float32)
            return as_tensor(policy.predict(self.scaled(features), deterministic=True)[0])

        return act
