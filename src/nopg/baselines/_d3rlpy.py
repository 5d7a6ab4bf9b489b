"""Offline reinforcement learning of d3rlpy, trained on the same transitions that we train on."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from nopg._checks import check_discount
from nopg._typing import as_tensor
from nopg.data import Schema, Transitions
from nopg.data.io._files import extra
from nopg.errors import ArgumentError, DataError


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


def train_offline(
    method: Literal["td3bc", "iql", "cql"],
    data: Transitions,
    discount: float,
    *,
    updates: int = 10_000,
    seed: int = 0,
    hidden_units: Sequence[int] = (64, 64),
) -> Actor:
    """Return a controller that a method of d3rlpy makes of a log, within the logged actions.

    Its defaults are kept beside `updates` of the networks, each on one batch, and the units of their layers.
    """

    def configuration(common: dict[str, Any]) -> Any:
        from d3rlpy import algos
        from d3rlpy.models import VectorEncoderFactory

        network = VectorEncoderFactory(hidden_units=[*hidden_units])
        settings = {"actor_encoder_factory": network, "critic_encoder_factory": network, **common}
        if method == "iql":
            return algos.IQLConfig(value_encoder_factory=network, **settings)
        return (algos.TD3PlusBCConfig if method == "td3bc" else algos.CQLConfig)(**settings)

    return train(configuration, data, discount, updates=updates, seed=seed)


def train(
    configuration: Callable[[dict[str, Any]], Any],
    data: Transitions,
    discount: float,
    *,
    updates: int,
    seed: int,
    every: int | None = None,
    after: Callable[[Actor, int], None] = lambda actor, done: None,
) -> Actor:
    """Return a controller of settings, given those that all methods share.

    d3rlpy standardises observations and scales actions to ±1. `after` gets the controller and the updates so
    far, after `every` so many.
    """
    gamma, (low, high) = check_discount(discount), data.actions.aminmax(dim=0)
    if updates < 1:
        raise ArgumentError(f"updates is {updates}; give a positive number")
    if not bool((low < high).all()):
        raise DataError(f"actions range from {low.tolist()} to {high.tolist()}; d3rlpy needs low < high")
    _import()
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

    common: dict[str, Any] = {
        "gamma": gamma,
        "observation_scaler": StandardObservationScaler(),
        "action_scaler": MinMaxActionScaler(minimum=low.numpy(), maximum=high.numpy()),
    }
    with isolated(seed), redirect_stdout(io.StringIO()):
        buffer, algorithm = to_d3rlpy(data), configuration(common).create()
    actor = Actor(algorithm, data.schema, low, high)
    with isolated(seed), redirect_stdout(io.StringIO()):  # a buffer and an algorithm may have drawn numbers
        algorithm.fit(
            buffer,
            n_steps=updates,
            n_steps_per_epoch=every or updates,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
            epoch_callback=lambda _, epoch, done: after(actor, done),
        )
    return actor


def to_d3rlpy(data: Transitions) -> Any:
    """Return a replay buffer of d3rlpy with exactly `len(data)` transitions, angles as cosine and sine.

    d3rlpy stores no next states and drops the last step of an episode that did not terminate. So rows that
    continue each other become an episode, and one that did not terminate gets one step more: the last next
    state with the last action and reward 0.
    """
    if data.weights is not None:
        raise DataError("d3rlpy counts every transition once; give data without weights")
    d3rlpy, dataset = _import(), extra("d3rlpy.dataset")
    last = torch.cat([~data.continues[1:], torch.ones(1, dtype=torch.bool)])
    longer = last & ~data.terminated
    rows = torch.arange(len(data)).repeat_interleave(1 + longer.long())
    added = (torch.arange(len(data)) + longer.long().cumsum(dim=0))[longer]
    features, rewards, cut = data.features[rows], data.rewards[rows], torch.zeros(len(rows))
    features[added], rewards[added], cut[added] = data.next_features[longer], 0.0, 1.0
    columns = (features, data.actions[rows], rewards, data.terminated[rows], cut)
    return dataset.MDPDataset(
        *(column.numpy().astype(np.float32) for column in columns),
        action_space=d3rlpy.ActionSpace.CONTINUOUS,
        action_size=data.actions.shape[1],
    )


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch and use one thread inside; then restore them.

    Several threads are slower for small networks, and sum in another order.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what the libraries draw from
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        try:
            torch.set_num_threads(1)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
        finally:
            torch.set_num_threads(threads)
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002


def _import() -> Any:
    with redirect_stderr(io.StringIO()):  # it imports the old gym, which prints a notice
        return extra("d3rlpy")
