"""Residuals of held-out rows, in the order of the log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from changed_logs import linear_run
from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._residuals import Residuals


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel(linear_run(sensor=0.0))


def residuals_of(model: LocalModel) -> Residuals:
    assert model.residuals is not None
    return model.residuals


def test_they_are_those_of_a_model_that_has_not_seen_the_group_of_the_row(model: LocalModel) -> None:
    data, found = model.data, residuals_of(model)
    apart = model.without_groups()
    expected = apart.predict(data.states, data.actions, 1 + model.rows.groups)
    missed = data.next_states - data.states - expected.displacement
    assert found.states == pytest.approx(missed.numpy(), abs=1e-12)
    assert found.rewards == pytest.approx((data.rewards - expected.reward).numpy(), abs=1e-12)
    seen = model.predict(data.states, data.actions).displacement
    assert found.states.std() > (data.next_states - data.states - seen).numpy().std()


def test_they_are_in_the_order_of_the_log_and_know_which_row_follows_another(model: LocalModel) -> None:
    found = residuals_of(model)
    assert torch.equal(found.log.states, model.data.states)
    assert found.linked.tolist() == (np.arange(len(model.data)) % 20 > 0).tolist()


def test_columns_that_are_not_learned_and_a_known_reward_have_none() -> None:
    found = residuals_of(LocalModel(linear_run(follows=True).with_reward("-x**2")))
    assert found.spread[2] == 0.0
    assert not found.states[:, 2].any()
    assert not found.rewards.any()
    assert found.states[:, :2].any(axis=0).all()


def test_a_single_group_has_none() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    assert LocalModel(Transitions.from_arrays(one, one, one[:, 0], one)).residuals is None


def coarse_in(levels: FloatArray, spread: float) -> dict[str, float]:
    """Return the columns whose steps are coarse in a log of these states (n,) that change by `spread`."""
    s, none = levels[:, None], np.zeros(len(levels))
    log = Transitions.from_arrays(s, 0 * s, none, s, state_names=["level"])
    return Residuals(log, none > 0, 0 * s, none, np.array([spread])).coarse


def test_a_column_is_coarse_whose_steps_are_larger_than_its_changes() -> None:
    levels = 0.3 * np.round(np.random.default_rng(0).normal(size=400) / 0.3)
    assert coarse_in(levels, 0.29) == {"level": pytest.approx(0.3)}
    assert coarse_in(levels, 0.31) == {}
    assert coarse_in(levels, 0.0) == {}  # a column that is not learned


def test_a_column_whose_values_do_not_recur_is_not_coarse_however_slow() -> None:
    assert coarse_in(np.linspace(0.0, 1.0, 400), 1e-6) == {}


def test_sums_that_differ_by_rounding_are_one_value() -> None:
    levels = np.repeat([0.1 + 0.2, 0.3, 0.6, 0.9], 100)
    assert coarse_in(levels, 0.2) == {"level": pytest.approx(0.3)}


def test_a_log_of_noise_is_not_coarse_and_the_same_log_rounded_to_its_range_is() -> None:
    data = linear_run(sensor=0.0)
    assert LocalModel(data).coarse == {}
    step = float(data.states[:, 0].std())

    def rounded(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([step * (states[:, :1] / step).round(), states[:, 1:]], dim=1)

    few = LocalModel(replace(data, states=rounded(data.states), next_states=rounded(data.next_states)))
    assert few.coarse == {data.schema.states[0]: pytest.approx(step)}
