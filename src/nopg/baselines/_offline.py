"""Offline reinforcement learning of d3rlpy, trained on the same transitions that we train on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike, as_tensor
from nopg.baselines._isolation import one_thread, own_randomness, quiet_d3rlpy, require_d3rlpy
from nopg.baselines._replay_buffer import to_d3rlpy
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError, DataError

OfflineMethod = Literal["td3+bc", "iql", "cql"]
"""Methods of d3rlpy that are made for logged data."""


def train_offline(
    method: OfflineMethod,
    data: Transitions,
    *,
    discount: float,
    updates: int = 10_000,
    seed: int = 0,
    hidden_units: Sequence[int] = (64, 64),
    action_bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a controller that a method of d3rlpy makes of logged transitions.

    d3rlpy samples from exactly these transitions. Angles are encoded as cosine and sine, observations
    standardised and actions scaled to ±1 by d3rlpy, which computes in float32; its defaults are kept.

    Args:
        method: 'td3+bc', 'iql' or 'cql'.
        data: The transitions.
        discount: γ in [0, 1).
        updates: Of the networks, each on one batch.
        seed: The same seed gives the same controller.
        hidden_units: Of every network, layer by layer.
        action_bounds: Lowest and highest actions (d_a,) the controller may ask for; those of the data by
            default.
    """
    if method not in (known := get_args(OfflineMethod)):
        raise ArgumentError(f"there is no method {method!r}; choose one of {', '.join(known)}")
    configuration = partial(_configuration, method, hidden_units)
    ((_, controller),) = epochs(
        configuration,
        data,
        discount=discount,
        updates=updates,
        count=1,
        seed=seed,
        action_bounds=action_bounds,
    )
    return controller


def epochs(
    configuration: Callable[[dict[str, Any]], Any],
    data: Transitions,
    *,
    discount: float,
    updates: int,
    count: int,
    seed: int,
    action_bounds: tuple[ArrayLike, ArrayLike] | None,
) -> list[tuple[float, Actor]]:
    """Return seconds of training and a copy of the controller after each of some equal shares of updates.

    Args:
        configuration: Returns d3rlpy's settings, given those that all methods share.
        data: The transitions.
        discount: γ.
        updates: A multiple of `count`.
        count: Number of shares.
        seed: Of everything random.
        action_bounds: See `train_offline`.
    """
    gamma = check_discount(discount)
    if count < 1 or updates < 1 or updates % count:
        raise ArgumentError(f"updates is {updates}; give a positive multiple of {count}")
    low, high = _action_range(data, action_bounds)
    require_d3rlpy()
    with own_randomness(seed):  # a buffer draws from numpy's generator as it is built
        buffer = to_d3rlpy(data, encode_angles=True)

    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

    from nopg.baselines._batches import BatchBuffer

    common: dict[str, Any] = {
        "gamma": gamma,
        "observation_scaler": StandardObservationScaler(),
        "action_scaler": MinMaxActionScaler(minimum=low.numpy(), maximum=high.numpy()),
    }
    algorithm = configuration(common).create()
    taken, seconds = [], 0.0
    with own_randomness(seed), quiet_d3rlpy(), one_thread():
        fitted = algorithm.fitter(
            BatchBuffer(buffer),
            n_steps=updates,
            n_steps_per_epoch=updates // count,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )
        for _ in range(count):
            begin = time.perf_counter()
            next(fitted)
            seconds += time.perf_counter() - begin
            taken.append((seconds, Actor(copy.deepcopy(algorithm), data.schema, low, high)))
    return taken


@dataclass(frozen=True, slots=True)
class Actor:
    """A trained algorithm of d3rlpy: raw states (m, d_s) in, actions (m, d_a) within the range out."""

    model: Any
    schema: Schema
    low: torch.Tensor
    high: torch.Tensor

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        observations = self.schema.encode(as_tensor(states)).numpy().astype(np.float32)
        return as_tensor(self.model.predict(observations)).clamp(self.low, self.high)


def _configuration(method: OfflineMethod, hidden_units: Sequence[int], common: dict[str, Any]) -> Any:
    """Return d3rlpy's settings of a method."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory

    network = VectorEncoderFactory(hidden_units=[*hidden_units])
    settings = {"actor_encoder_factory": network, "critic_encoder_factory": network, **common}
    if method == "td3+bc":
        return algos.TD3PlusBCConfig(**settings)
    if method == "iql":
        return algos.IQLConfig(value_encoder_factory=network, **settings)
    return algos.CQLConfig(**settings)


def _action_range(
    data: Transitions, bounds: tuple[ArrayLike, ArrayLike] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the actions (d_a,) that ±1 means in the networks, as given or as in the data."""
    low, high = data.actions.aminmax(dim=0)
    if bounds is not None:
        low, high = (as_tensor(bound).reshape(-1) for bound in bounds)
    if low.shape != high.shape or len(low) != data.actions.shape[1] or not bool((low < high).all()):
        raise DataError(
            f"actions range from {low.tolist()} to {high.tolist()}; every action needs low < high, say so "
            "with action_bounds=(low, high)"
        )
    return low, high
