"""Offline reinforcement learning of d3rlpy, trained on the same transitions that we train on."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike, as_tensor
from nopg.baselines._action_range import action_range
from nopg.baselines._isolation import one_thread, own_randomness, quiet_d3rlpy, require_d3rlpy
from nopg.baselines._replay_buffer import to_d3rlpy
from nopg.baselines._snapshot import Snapshot, check_snapshots
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError

OfflineMethod = Literal["bc", "ddpg", "td3+bc", "iql", "cql"]
"""Behaviour cloning, DDPG as it is, and three methods made for logged data."""

OFFLINE_METHODS: tuple[OfflineMethod, ...] = get_args(OfflineMethod)
"""All of them, in the order of the tables."""

_UPDATES = dict.fromkeys(OFFLINE_METHODS, 10_000) | {"ddpg": 2_000}


def train_offline(
    method: OfflineMethod,
    data: Transitions,
    *,
    discount: float,
    updates: int | None = None,
    snapshots: int = 10,
    seed: int = 0,
    hidden_units: Sequence[int] = (50,),
    action_bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> list[Snapshot]:
    """Train a method of d3rlpy on logged transitions.

    d3rlpy samples from exactly these transitions. Angles are encoded as cosine and sine, observations
    standardised and actions scaled to ±1 by d3rlpy. DDPG has the learning rates and the target update of the
    supplement; what that does not name is d3rlpy's default. d3rlpy computes in float32.

    Args:
        method: 'bc', 'ddpg', 'td3+bc', 'iql' or 'cql'.
        data: The transitions.
        discount: γ in [0, 1).
        updates: Of the networks, each on one batch, a multiple of `snapshots`. By default 2 000 for DDPG, as
            in the supplement, and 10 000 for the others, whose learning rates are smaller.
        snapshots: How many controllers to keep, evenly over the updates; the last is the result.
        seed: The same seed gives the same controllers.
        hidden_units: Of every network, layer by layer; one layer of 50 in the supplement.
        action_bounds: Lowest and highest actions (d_a,) the controller may ask for; those of the data by
            default.

    Returns:
        The snapshots, oldest first.
    """
    if method not in OFFLINE_METHODS:
        raise ArgumentError(f"there is no method {method!r}; choose one of {', '.join(OFFLINE_METHODS)}")
    gamma = check_discount(discount)
    count = _UPDATES[method] if updates is None else updates
    interval = check_snapshots("updates", count, snapshots)
    low, high = action_range(data, action_bounds)
    require_d3rlpy()
    with own_randomness(seed):  # a buffer draws from numpy's generator as it is built
        buffer = to_d3rlpy(data, encode_angles=True)
    algorithm = _configuration(method, gamma, low, high, hidden_units).create()

    from d3rlpy.logging import NoopAdapterFactory

    from nopg.baselines._batches import BatchBuffer

    taken, seconds = [], 0.0
    with own_randomness(seed), quiet_d3rlpy(), one_thread():
        epochs = algorithm.fitter(
            BatchBuffer(buffer),
            n_steps=count,
            n_steps_per_epoch=interval,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )
        for epoch in range(1, snapshots + 1):
            begin = time.perf_counter()
            next(epochs)
            seconds += time.perf_counter() - begin

            model = copy.deepcopy(algorithm)
            controller = _Actor(model, data.schema, low, high)
            taken.append(Snapshot(epoch * interval, len(data), seconds, controller, model))
    return taken


@dataclass(frozen=True, slots=True)
class _Actor:
    """A trained algorithm of d3rlpy: raw states (m, d_s) in, actions (m, d_a) within the range out."""

    model: Any
    schema: Schema
    low: torch.Tensor
    high: torch.Tensor

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        observations = self.schema.encode(as_tensor(states)).numpy().astype(np.float32)
        return as_tensor(self.model.predict(observations)).clamp(self.low, self.high)


def _configuration(
    method: OfflineMethod, gamma: float, low: torch.Tensor, high: torch.Tensor, hidden_units: Sequence[int]
) -> Any:
    """Return d3rlpy's settings of a method."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory
    from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

    network = VectorEncoderFactory(hidden_units=[*hidden_units])
    actor_critic = {"actor_encoder_factory": network, "critic_encoder_factory": network}
    common: dict[str, Any] = {
        "gamma": gamma,
        "observation_scaler": StandardObservationScaler(),
        "action_scaler": MinMaxActionScaler(minimum=low.numpy(), maximum=high.numpy()),
    }
    match method:
        case "bc":
            return algos.BCConfig(encoder_factory=network, **common)
        case "ddpg":
            paper = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "tau": 1e-3}
            return algos.DDPGConfig(**paper, **actor_critic, **common)
        case "td3+bc":
            return algos.TD3PlusBCConfig(**actor_critic, **common)
        case "iql":
            return algos.IQLConfig(value_encoder_factory=network, **actor_critic, **common)
        case "cql":
            return algos.CQLConfig(**actor_critic, **common)
