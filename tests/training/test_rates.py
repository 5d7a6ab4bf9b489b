"""Limits on the change of actions from row to row."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import nopg
from nopg.data import Transitions
from nopg.deploy import load as load_runtime
from nopg.errors import ArgumentError
from nopg.policies import DeviationPolicy
from nopg.training import TrainingResult

RATE = 0.15


def log() -> Transitions:
    """Return episodes of a level under slowly moving random inflows."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(12):
        level, inflow = rng.uniform(-1, 1), 0.0
        for _ in range(30):
            inflow = float(np.clip(inflow + rng.uniform(-0.4, 0.4), -1, 1))
            after = 0.9 * level + 0.3 * inflow
            rows.append((episode, level, inflow, after))
            level = after
    episodes, s, a, after = np.array(rows).T
    return Transitions.from_arrays(
        s,
        a,
        -(s**2) - 0.001 * a**2,
        after,
        episodes=episodes.astype(int),
        state_names=["level"],
        action_names=["inflow"],
    )


@pytest.fixture(scope="module")
def limited() -> TrainingResult:
    config = nopg.TrainingConfig(updates=11, progress=False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = nopg.optimize(log(), 0.9, rates={"inflow": RATE}, config=config)
        assert not any("LQR" in str(one.message) for one in warned)  # it would not keep the limit
        return result


def largest_change(result: TrainingResult) -> float:
    stream, level, actions = result.policy.stream(), 1.0, []
    stream.reset(applied=[0.0])
    for _ in range(40):
        actions.append(float(stream.act([level])[0]))
        level = 0.9 * level + 0.3 * actions[-1]
    return float(np.abs(np.diff([0.0, *actions])).max())


def test_the_limit_is_kept_on_the_plant_and_used_and_in_what_is_predicted(limited: TrainingResult) -> None:
    assert largest_change(limited) == pytest.approx(RATE)
    assert limited.policy.schema.states == ("level", "inflow_lag1")
    paths = limited.evaluation.paths
    changes = paths.actions[..., 0] - paths.states[..., 1]
    assert float(changes.abs().max()) <= RATE + 1e-12


def test_a_saved_controller_keeps_the_limit(limited: TrainingResult, tmp_path: Path) -> None:
    runtime = load_runtime(limited.save(tmp_path / "limited"))
    states = np.stack([np.linspace(-1, 1, 50), np.linspace(0.5, -0.5, 50)], axis=1)
    assert np.abs(runtime(states) - limited.policy(states)).max() <= 1e-12
    assert np.abs(runtime(states)[:, 0] - states[:, 1]).max() == pytest.approx(RATE)


@pytest.mark.slow
def test_a_structure_can_have_a_rate_and_actions_without_one_are_free() -> None:
    data = log()
    two = Transitions.from_arrays(
        data.states,
        torch.cat([data.actions, data.actions.flip(0)], dim=1),
        data.rewards,
        data.next_states,
        state_names=["level"],
        action_names=["inflow", "heat [kW]"],
        episodes=data.episodes,
    )
    config = nopg.TrainingConfig(updates=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = nopg.optimize(two, 0.9, policy="linear", rates={"heat [kW]": RATE}, config=config)
    policy = result.policy.policy
    assert isinstance(policy, DeviationPolicy)
    assert result.policy.schema.states == ("level", "heat [kW]_lag1")
    span = float(data.actions.max() - data.actions.min())
    assert policy.limit.tolist() == pytest.approx([span, RATE])


def test_other_rates_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no action 'valve' to limit"):
        nopg.optimize(log(), 0.9, rates={"valve": 1.0})
    with pytest.raises(ArgumentError, match="above 0"):
        nopg.optimize(log(), 0.9, rates={"inflow": 0.0})
    with pytest.raises(ArgumentError, match="GaussianMLPPolicy has no rate"):
        nopg.optimize(log(), 0.9, policy="gaussian", rates={"inflow": 0.1})
    data = log()
    stepped = Transitions.from_arrays(
        data.states, data.actions.sign(), data.rewards, data.next_states, levels={"a0": (-1.0, 0.0, 1.0)}
    )
    with pytest.raises(ArgumentError, match="actions with levels have no rate"):
        nopg.optimize(stepped, 0.9, rates={"a0": 0.1})
