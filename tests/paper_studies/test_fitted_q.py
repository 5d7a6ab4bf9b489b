"""Fitted Q evaluation: any policy, the values that d3rlpy gives, known answers."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nopg.baselines import train_offline
from nopg.data import Transitions
from nopg.data.io import to_d3rlpy
from nopg.errors import ArgumentError, DataError, MissingExtraError
from nopg.policies import MLPPolicy
from nopg.training import Controller
from paper_studies.baseline_cases import EPISODES, STATES, UNCONNECTED, constant_reward
from studies.baselines import FittedQ, fitted_q_evaluation
from studies.baselines._fitted_q import _beside


def nothing(states: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(states), 1)


def short(policy: Any = nothing, **settings: Any) -> FittedQ:
    return fitted_q_evaluation(policy, UNCONNECTED, **{"discount": 0.9, "updates": 20, **settings})


def test_d3rlpy_is_told_the_very_actions_of_its_own_algorithm_and_sees_nothing_else_of_them() -> None:
    algorithm = train_offline("ddpg", UNCONNECTED, discount=0.9, updates=20, snapshots=1)[-1].model
    model = short(algorithm).model
    features = UNCONNECTED.features.numpy().astype(np.float32)
    observations = np.concatenate([features, algorithm.predict(features)], axis=1)

    scaled = model.observation_scaler.transform(torch.as_tensor(observations))
    own = algorithm.observation_scaler.transform(torch.as_tensor(features))
    # Both scalings and back in float32.
    assert torch.allclose(
        model.algo.impl.predict_best_action(scaled), algorithm.impl.predict_best_action(own), atol=1e-5
    )

    observations[:, -1] = 7.0
    values = model.predict_value(observations, algorithm.predict(features))
    assert np.array_equal(values, short(algorithm).value(UNCONNECTED.states))


def test_an_algorithm_its_controller_and_one_of_ours_can_be_evaluated() -> None:
    snapshot = train_offline("bc", EPISODES, discount=0.9, updates=10, snapshots=1)[-1]
    rng = torch.Generator().manual_seed(0)
    policy = MLPPolicy.from_data(EPISODES.features, EPISODES.actions, rng=rng)
    first, second, third = (
        fitted_q_evaluation(given, EPISODES, discount=0.9, updates=10)
        for given in (snapshot.model, snapshot.controller, Controller(policy, EPISODES.schema))
    )
    assert first.expected_return == second.expected_return != third.expected_return


@pytest.mark.parametrize("data", [UNCONNECTED, EPISODES], ids=["unconnected", "episodes"])
def test_n_transitions_stay_n_with_the_policy_beside_them(data: Transitions) -> None:
    assert to_d3rlpy(_beside(data, nothing)).transition_count == len(data)


def test_the_same_seed_gives_the_same_values() -> None:
    first, again, other = short(), short(), short(seed=1)
    assert np.array_equal(first.value(STATES), again.value(STATES))
    assert not np.array_equal(first.value(STATES), other.value(STATES))


def test_the_expected_return_is_the_mean_value_of_the_starts() -> None:
    fitted = short()
    assert fitted.expected_return == pytest.approx(float(fitted.value(UNCONNECTED.starts).mean()), rel=1e-6)
    assert np.array_equal(fitted.value(STATES), fitted.action_value(STATES, nothing(STATES)))
    assert not np.array_equal(fitted.value(STATES), fitted.action_value(STATES, nothing(STATES) + 1))


def test_the_value_of_a_constant_reward_is_near_the_geometric_series() -> None:
    fitted = fitted_q_evaluation(nothing, constant_reward(3.0), discount=0.5, updates=1_000)
    # 3/(1 − .5); after 10 targets 2⁻¹⁰ of the start is left, the rest is fit.
    assert fitted.expected_return == pytest.approx(6.0, rel=0.05)


@pytest.mark.slow
def test_by_default_there_are_enough_updates_for_a_longer_horizon() -> None:
    fitted = fitted_q_evaluation(nothing, constant_reward(-2.0), discount=0.95)
    assert fitted.expected_return == pytest.approx(-40.0, rel=0.1)


def test_a_policy_with_actions_of_the_wrong_shape_or_without_numbers_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"actions of shape \(64, 2\); return finite numbers of shape \(64, 1\)"
    ):
        short(lambda states: torch.zeros(len(states), 2))
    with pytest.raises(DataError, match="return finite numbers"):
        short(lambda states: nothing(states) * torch.nan)
    with pytest.raises(ArgumentError, match="updates must be at least 1"):
        short(updates=0)


def test_actions_without_a_range_are_refused() -> None:
    data = replace(UNCONNECTED, actions=torch.zeros_like(UNCONNECTED.actions))
    with pytest.raises(DataError, match="every action needs low < high"):
        fitted_q_evaluation(nothing, data, discount=0.9)


def test_without_d3rlpy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r"needs d3rlpy.*pip install 'nopg\[baselines\]'"):
        short()
