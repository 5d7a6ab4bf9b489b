"""Controllers of every kind, with and without angles and bounds, from two short trainings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import torch

from nopg import TrainingConfig
from nopg.data import Schema, Transitions
from nopg.envs import Pendulum, collect_uniform
from nopg.policies import (
    FormulaPolicy,
    GaussianMLPPolicy,
    GaussianPolicy,
    LinearPolicy,
    MLPPolicy,
    Policy,
)
from nopg.training import Controller, TrainingResult, optimize

KINDS = ("linear", "diagonal", "mlp", "gaussian-linear", "gaussian-mlp-mean", "gaussian-mlp", "formula")

Numbers = npt.NDArray[np.float64]


def cases() -> Iterator[tuple[str, bool, bool]]:
    """Yield kind, whether there is an angle, whether actions are bounded."""
    for kind, angles, bounds in product(KINDS, (False, True), (False, True)):
        if kind != "diagonal" or not angles:  # a diagonal gain needs as many actions as features
            yield kind, angles, bounds


# Every kind once, with angles and bounds in turn; the others are slow together.
SOME = [(kind, kind != "diagonal" and bool(k % 2), bool(k % 3)) for k, kind in enumerate(KINDS)]
CASES = [case if case in SOME else pytest.param(*case, marks=pytest.mark.slow) for case in cases()]


def controller(kind: str, *, angles: bool, bounds: bool) -> TrainingResult:
    """Return a result whose policy is of this kind; bounds are narrower than what the policy asks for."""
    base = trained(angles, bounds)
    schema: Schema = base.policy.schema
    policy = policy_of_kind(kind, trained(angles, False).data)
    declared = {schema.actions[0]: (-0.3, 0.2)} if bounds else {}
    return replace(base, policy=Controller(policy, replace(schema, bounds=declared)))


@cache
def trained(angles: bool, bounds: bool = False) -> TrainingResult:
    """Return a short training on a pendulum, or on two columns with two actions; small ones with bounds."""
    data = collect_uniform(Pendulum(), 300, seed=4) if angles else _drift()
    if bounds:
        scale = torch.tensor([0.2, 1.0] if data.actions.shape[1] == 2 else [0.1], dtype=torch.float64)
        data = replace(data, actions=data.actions * scale)
    return optimize(data, 0.9, model="paper", config=TrainingConfig(updates=1, seed=1, progress=False))


def policy_of_kind(kind: str, data: Transitions) -> Policy:
    """Return an untrained policy of a kind, drawn from a seed, so large that bounds bite.

    Its actions lie within the logged ones at some states, and beyond them at others.
    """
    rng = torch.Generator().manual_seed(7)
    d_f, d_a = data.features.shape[1], data.actions.shape[1]
    gain = 0.3 * torch.randn(d_a, d_f, generator=rng, dtype=torch.float64)
    if d_a == 2:  # levels around 1000
        gain = torch.tensor([[2e-3, -2e-3], [-0.011, 0.01]], dtype=torch.float64)
    linear = LinearPolicy(gain)
    network = MLPPolicy.from_data(data.features, data.actions, rng=rng)
    gaussian = GaussianMLPPolicy.from_data(data.features, data.actions, rng=rng)
    for layer in (network.network.output, gaussian.network.output):
        layer.weight.data.mul_(5.0)
    return {
        "linear": linear,
        "diagonal": LinearPolicy([9e-4, -2e-3]),
        "mlp": network,
        "gaussian-linear": GaussianPolicy(linear, 0.3),
        "gaussian-mlp-mean": GaussianPolicy(network, 0.3),
        "gaussian-mlp": gaussian,
        "formula": _formula(data),
    }[kind]


def _formula(data: Transitions) -> FormulaPolicy:
    """Return a law with every function of a formula in it."""
    unit = 1000 if len(data.schema.actions) == 2 else 1  # levels are around 1000
    first, second = (f"({name} / {unit})" for name in data.schema.states)
    one = f"a * ({first} - 0.1) + b * max(abs({second}), 2) ** 2 / 7 + c * ({first} > 1.01 or {second} < 0)"
    other = f"d * sin({first}) * cos({second} / 3) + tanh(c * {first}) + log(1 + exp(-sqrt(abs({second}))))"
    laws = [f"{one} + d * min({other}, 0.3)", f"{other} + a * b * ({first} - 1)"]
    return FormulaPolicy.from_data(
        data.schema,
        dict(zip(data.schema.actions, laws, strict=False)),
        {"a": 0.3, "b": -0.02, "c": 1 / 3, "d": 0.7},
        features=data.features,
        actions=data.actions,
    )


def many_states(result: TrainingResult, count: int = 4_000, *, seed: int = 0) -> Numbers:
    """Return raw states in and far around the data."""
    rng = np.random.default_rng(seed)
    seen = result.data.states.numpy()
    low, high = seen.min(axis=0), seen.max(axis=0)
    near = seen[rng.integers(len(seen), size=count // 2)] + 0.05 * (high - low) * rng.standard_normal(
        (count // 2, seen.shape[1])
    )
    far = (low + high) / 2 + 2.0 * (high - low) * rng.uniform(-1, 1, (count - count // 2, seen.shape[1]))
    return np.concatenate([near, far])


def torch_answers(result: TrainingResult, states: Numbers) -> tuple[Numbers, Numbers]:
    """Return clipped action and unknown share as the result gives them."""
    actions = np.asarray(result.policy(states), dtype=np.float64)
    for k, name in enumerate(result.policy.schema.actions):
        actions[:, k] = actions[:, k].clip(*result.policy.schema.bounds.get(name, (None, None)))
    return actions, np.asarray(result.unknown_at(states), dtype=np.float64)


def _drift() -> Transitions:
    """Return noisy transitions of two levels under two valves; the levels are large numbers."""
    rng = np.random.default_rng(2)
    levels = rng.uniform(900.0, 1_100.0, (300, 2))
    valves = rng.uniform(-1.0, 1.0, (300, 2)) * [1.0, 4.0]
    return Transitions.from_arrays(
        levels,
        valves,
        -np.abs(levels - 1_000.0).sum(axis=1),
        levels + 5.0 * valves,
        state_names=["upper", "lower"],
        action_names=["feed", "drain"],
        units={"upper": "mm", "drain": "l/s"},
    )
