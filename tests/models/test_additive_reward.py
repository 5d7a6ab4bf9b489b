"""Learned rewards of the state after a step: a sum of functions of columns and differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg import Transitions
from nopg.evaluation import OfflineEvaluator
from nopg.models import LocalModel
from nopg.models._rollout import rollout

FORMULA = "-log(abs(next(level) - next(goal)) + 0.02) - 2*abs(valve)"


def log(noise: float = 0.0, formula: str = FORMULA) -> Transitions:
    """A level that follows a valve, and a goal that is held; the reward is a column."""
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(-1.0, 1.0, 600), rng.uniform(-1.0, 1.0, 600)
    goal = np.repeat(rng.uniform(-0.5, 0.5, 30), 20)
    after = 0.8 * level + 0.4 * valve + noise * rng.normal(size=600)
    data = Transitions.from_arrays(
        np.stack([level, goal], axis=1),
        valve,
        np.zeros(600),
        np.stack([after, goal], axis=1),
        episodes=np.repeat(np.arange(30), 20),
        state_names=["level", "goal"],
        action_names=["valve"],
        exogenous={"goal": "hold"},
    )
    return replace(data, rewards=data.with_reward(formula).rewards)


def test_a_sum_of_edges_is_learned_from_where_steps_lead() -> None:
    data = log()
    model = LocalModel(data)
    assert model.steps.reward is not None
    assert model.column_fits[-1].r_squared > 0.99
    assert model.squares is not None
    assert model.squares.text.startswith("-((next(level) + -next(goal))**2 + (valve")
    stated, missed = data.with_reward(FORMULA), model.held_out.reward_errors
    assert float(missed.square().mean()) < 0.01 * float(stated.rewards.var())


def test_a_reward_that_charts_fit_stays_with_them() -> None:
    assert LocalModel(log(formula="-(level - goal)**2 - 0.1*valve**2")).steps.reward is None


def test_rows_that_no_column_explains_have_no_sum() -> None:
    data = log()
    noise = torch.as_tensor(np.random.default_rng(1).normal(size=len(data)))
    assert LocalModel(replace(data, rewards=noise)).steps.reward is None


def test_a_term_explains_more_than_chance() -> None:
    """A share of 0.1 % of the variance is not worth a term, one of 5 % is."""
    for price, terms in ((0.03, 1), (0.6, 2)):
        model = LocalModel(log(formula=f"-abs(next(level) - next(goal)) - {price}*abs(valve)"))
        assert model.steps._additive is not None
        assert len(model.steps._additive.factors) == terms


def _act(features: torch.Tensor, t: int) -> torch.Tensor:
    return 0.5 * (features[:, 1:2] - features[:, :1])


def test_rewards_of_rollouts_are_of_the_states_that_were_drawn_by_the_part_of_each_path() -> None:
    data = log(noise=0.05)
    model = LocalModel(data)
    fit = model.steps.reward
    assert fit is not None
    starts, steps = data.states[:4], 3
    normal = np.random.default_rng(2).normal(size=(steps, 4, 4))
    part = np.array([0, 1, 2, 3])
    path = rollout(model, _act, starts, steps, part=part, noise=normal)
    for t in range(steps):
        x = np.concatenate([path.measured[t], path.actions[t]], axis=1).T
        expected, _ = fit.at(x, path.measured[t + 1].T, part)
        assert path.rewards[t] == pytest.approx(np.clip(expected, *model.reward_clamp), abs=1e-12)
    assert np.ptp([fit.at(x[:, :1], path.measured[-1, :1].T, np.array([p]))[0][0] for p in part]) > 0


def test_slopes_of_rewards_are_those_of_differences() -> None:
    data = log()
    model, x = LocalModel(data), np.array([[0.31], [0.12], [0.4]])
    _, slopes = model.steps.step(x, None)
    h = 1e-6
    for k in range(3):
        ends = [model.steps.step(x + s * h * np.eye(3)[:, k : k + 1], None)[0][2, 0] for s in (1, -1)]
        assert slopes[2, k, 0] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4)
    assert model.steps.reward_slopes(x)[:, 0] == pytest.approx(slopes[2, :, 0])
    path = rollout(model, _act, data.states[:4], 3, slopes=True)
    assert path.slopes is not None
    x = np.concatenate([path.states[1], path.actions[1]], axis=1).T
    assert path.slopes[1][1] == pytest.approx(model.steps.reward_slopes(x), rel=1e-6)


def test_an_edge_in_the_outer_rows_of_a_column_without_a_term_brings_the_support_in() -> None:
    """A penalty that a few of the outermost rows show explains too little for a term."""
    plain = LocalModel(log(formula="-sqrt(abs(next(level)))"))
    edged = LocalModel(log(formula="-sqrt(abs(next(level))) - 15*max(valve - 0.98, 0)"))
    assert plain.steps._additive is not None
    assert edged.steps._additive is not None
    assert edged.support.margin[2] < plain.support.margin[2]


def test_starts_of_a_training_are_at_further_set_points_of_a_learned_reward() -> None:
    evaluator = OfflineEvaluator(log(), 0.9)
    further = evaluator.at_further_set_points()
    assert further is not evaluator
    assert len(further.data.starts.unique(dim=0)) > len(evaluator.data.starts.unique(dim=0))
