"""The study of known rewards: formulas equal to the plants' rewards, and one set of policies for both."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from studies.known_reward import given_policies, page
from studies.logs.known_reward_plants import REWARD_PLANTS
from studies.plants.arm import TwoLinkArm
from studies.records import Record


def test_the_formula_of_the_arm_is_its_reward() -> None:
    plant, arm = REWARD_PLANTS["two-link-arm"], TwoLinkArm()
    data = plant.data(500, 0)
    expected = arm.reward(data.states, data.actions, data.next_states)
    assert data.rewards.allclose(expected, atol=1e-12)


def test_inside_the_obstacle_a_row_costs_5() -> None:
    plant = REWARD_PLANTS["obstacle"]
    places = np.array([[1.0, 0.3, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]])
    found = plant.rewards(None, places, np.zeros((2, 2)), places)
    assert found == pytest.approx([-np.hypot(1.0, 0.3) - 5.0, -np.hypot(1.0, 0.5)])


def test_policies_do_not_depend_on_how_the_reward_is_given() -> None:
    plant = REWARD_PLANTS["corridor"]
    known = plant.data(400, 0)
    learned = replace(known, schema=replace(known.schema, reward=None))
    one, other = given_policies(plant, known), given_policies(plant, learned)
    states = torch.as_tensor(plant.start(5, np.random.default_rng(0)))
    assert {"clone", "engineered", "mixture"} <= set(one)
    for name, law in one.items():
        assert np.allclose(law(states.numpy()), other[name](states.numpy()))


def test_the_page_compares_mean_absolute_errors() -> None:
    def record(method: str, predicted: float) -> Record:
        wild = {"predicted": 10 * predicted, "true": -1.0, "verdict": "not identifiable"}
        results = {"clone": {"predicted": predicted, "true": -1.0, "verdict": "ok"}, "wild": wild}
        return Record(study="s", benchmark="plant", method=method, commit="1", results=results)

    text = page([record("learned", -3.0), record("formula", -0.5)])
    assert "| plant | 1 | 2 | 15.5 | 2.25 | 0.15 |" in text
    assert "| plant | 1 | 1 | 2 | 0.5 | 0.25 |" in text
