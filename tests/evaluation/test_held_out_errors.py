"""What errors on held-out episodes would change in the return."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.test_local_model import linear_log
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._held_out import HeldOutErrors


def rest(states: torch.Tensor) -> torch.Tensor:
    return -0.2 * states[:, :1]


def evaluated(*, reward: float = 0.0, push: float = 0.0, noise: float = 0.0) -> Assessment:
    """Return an evaluation whose held-out rows earned and moved more than the model has learned."""
    data = linear_log(400, noise=noise)
    evaluator = OfflineEvaluator(data, 0.9)
    held_out = evaluator.model.held_out
    moved = held_out.next_states.clone()
    moved[:, 0] += push
    evaluator.model.__dict__["held_out"] = replace(
        held_out, reward_errors=held_out.reward_errors + reward, next_states=moved
    )
    return evaluator.assess(rest)


def test_an_exact_model_has_no_errors_on_held_out_rows() -> None:
    assert abs(evaluated().held_out.bias) < 1e-6


def test_a_reward_that_is_higher_than_predicted_counts_for_all_time() -> None:
    found = evaluated(reward=0.3).held_out
    assert found.bias == pytest.approx(0.3 / (1 - 0.9), rel=1e-6)
    assert found.standard_error < 1e-6


def test_a_push_counts_by_the_value_of_where_it_leads() -> None:
    plain, one, other = (evaluated(push=push) for push in (0.0, 0.02, -0.02))
    values = plain.paths.solution.without_leaving
    nodes, rows = values.problem.nodes, plain.paths.solution.problem.model.held_out
    between = nodes.interpolate(rows.next_states)
    assert one.held_out.bias * other.held_out.bias < 0
    steepest = float(between.slopes(values.values[0][between.near]).abs().max())
    assert abs(one.held_out.bias) < 10 * 0.02 * steepest


def test_the_bias_widens_the_interval() -> None:
    plain, biased = evaluated(), evaluated(reward=0.3)
    assert plain.errors.model < 1.0
    assert biased.errors.model == pytest.approx(3.0, rel=1e-6)  # halves of an exact model agree
    assert biased.expected_return == plain.expected_return


def test_chance_alone_is_within_the_error_of_the_bias() -> None:
    found = evaluated(noise=0.3).held_out
    assert found.standard_error > 0
    assert found.certain == 0.0


def test_the_interval_of_the_bias_is_students() -> None:
    found = HeldOutErrors(1.0, 0.15 * np.repeat([1.0, -1.0], 5))  # √(10 · .15² · 10/9) = .5
    assert found.standard_error == pytest.approx(0.5)
    assert f"95 % [{1 - 2.262157 * 0.5:+.3g}, {1 + 2.262157 * 0.5:+.3g}] by Student's t" in str(found)
    assert "over 10 groups of episodes" in str(found)
    alone = HeldOutErrors(0.0, np.zeros(1))
    assert str(alone) == "there are no held-out episodes"
    assert alone.standard_error == math.inf
    assert alone.certain == 0.0


def test_certain_is_of_a_bias_what_its_variance_does_not_explain() -> None:
    apart = 0.3 * np.repeat([1.0, -1.0], 5)  # a standard error of 1
    assert HeldOutErrors(-3.0, apart).certain == pytest.approx(-math.sqrt(8.0))
    assert HeldOutErrors(-0.9, apart).certain == 0.0
    assert HeldOutErrors(3.0, apart).certain == pytest.approx(math.sqrt(8.0))


def test_few_rows_that_stand_for_a_path_make_its_bias_uncertain_even_if_groups_agree() -> None:
    apart = 0.3 * np.repeat([1.0, -1.0], 5)
    assert HeldOutErrors(-3.0, apart, np.array([2.0, -1.5])).standard_error == pytest.approx(2.5)
    assert HeldOutErrors(-3.0, apart, np.array([0.2, -0.2])).standard_error == pytest.approx(1.0)


def test_biases_of_two_controllers_on_the_same_rows_differ_group_by_group() -> None:
    apart, rows = 0.3 * np.repeat([1.0, -1.0], 5), np.array([2.0, -1.0])
    found = HeldOutErrors(1.5, apart, rows).less(HeldOutErrors(2.0, apart, rows))
    assert (found.bias, found.standard_error) == (-0.5, 0.0)
    assert found.certain == -0.5
