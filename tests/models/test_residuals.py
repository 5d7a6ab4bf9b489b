"""Residuals of held-out rows, in the order of the log."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from changed_logs import linear_run
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
