"""Least squares and LQR as a controller that a network has to beat."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg import TrainingConfig, Transitions, optimize
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.policies import DeviationPolicy, FormulaPolicy, MLPPolicy
from nopg.training._proposals import linear_law

BRIEF = TrainingConfig(updates=1, progress=False)


def log_of(episodes: int = 8, *, bend: float = 0.0, steps: int = 25) -> Transitions:
    """Return a plant of two coupled states under random actions, with a steep cost on one side of y > −.2."""
    rng = np.random.default_rng(0)
    s = np.empty((steps + 1, episodes, 2))
    a = rng.uniform(-1, 1, (steps, episodes, 1))
    s[0] = rng.uniform(-1, 1, (episodes, 2))
    for t in range(steps):
        s[t + 1] = s[t] @ np.array([[0.95, 0.1], [-0.1, 0.9]]).T + a[t] @ np.array([[0.1, 0.3]])
    s += rng.normal(0.0, 0.003, s.shape)
    before, after, acted = (part.swapaxes(0, 1).reshape(-1, part.shape[2]) for part in (s[:-1], s[1:], a))
    rewards = -(before**2).sum(axis=1) - 0.1 * acted[:, 0] ** 2 - bend * np.maximum(before[:, 1] + 0.2, 0.0)
    return Transitions.from_arrays(
        before,
        acted,
        rewards,
        after,
        episodes=np.arange(episodes).repeat(steps),
        state_names=("x", "y"),
        action_names=("u",),
        initial_states=rng.uniform(-0.8, 0.8, (5, 2)),
    )


def regulator_of(data: Transitions, discount: float = 0.8) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    regulator = fit.regulator(discount) if fit else None
    assert regulator is not None
    return regulator


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of scipy
@pytest.mark.parametrize("growth", [1e150, 1e200])
def test_a_plant_that_runs_away_has_no_regulator(growth: float) -> None:
    s, a = np.random.default_rng(0).normal(size=(2, 60, 1))
    fit = LinearQuadraticFit.of(Transitions.from_arrays(s, a, -np.square(s)[:, 0], 0.5 * s + a))
    assert fit is not None
    assert fit.solve(0.9) is not None
    assert replace(fit, F=growth * fit.F).solve(0.9) is None


def test_formulas_of_a_regulator_act_as_it_does() -> None:
    rng = np.random.default_rng(1)
    s = rng.uniform(-9, 9, (200, 3))
    data = Transitions.from_arrays(
        s,
        rng.uniform(-1, 1, (200, 2)),
        -np.cos(s[:, 0]),
        0.9 * s,
        state_names=("arm angle", "arm_angle", "speed"),
        action_names=("left", "right"),
        angles={"arm angle": 2 * math.pi},
    )
    regulator = Regulator(
        torch.tensor([[0.3, -0.01, 0.02], [0.1, 0.0, -0.3]], dtype=torch.float64),
        torch.tensor([0.1, -0.2], dtype=torch.float64),
        data.actions.amin(dim=0),
        data.actions.amax(dim=0),
        data.schema,
    )
    policy = linear_law(regulator, data)
    assert policy is not None
    assert torch.allclose(policy.mode(data.features), regulator(data.states), rtol=0, atol=1e-12)
    assert len(policy.gains) == 8  # two columns whose names become one word have a gain each
    assert policy.gains["offset_left"] == pytest.approx(0.1)
    assert policy.gains["k_speed_right"] == pytest.approx(-0.3)


def test_an_action_that_never_varied_has_no_linear_law() -> None:
    data = log_of()
    regulator = regulator_of(data)
    fixed = Regulator(regulator.gain, regulator.offset, regulator.low, regulator.low, data.schema)
    assert linear_law(fixed, data) is None


@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_a_network_that_is_not_better_with_90_per_cent_gives_way_to_the_regulator() -> None:
    data = log_of()
    result = optimize(data, 0.8, config=BRIEF)
    assert isinstance(result.policy.policy, FormulaPolicy)
    assert "LQR" in result.start
    assert result.start.endswith("(kept: no network is better with 90 % probability)")
    assert torch.allclose(result.policy.policy.mode(data.features), regulator_of(data)(data.states), atol=0.1)
    assert result.evaluation.expected_return == result.expected_return


@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_a_network_that_is_better_with_90_per_cent_stays() -> None:
    data = log_of(16, bend=8.0)
    result = optimize(data, 0.8, config=TrainingConfig(updates=10, progress=False))
    assert isinstance(result.policy.policy, MLPPolicy)
    linear = result.evaluator.assess(regulator_of(data))
    assert result.expected_return > linear.expected_return


@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_a_regulator_keeps_the_limits_of_rates() -> None:
    result = optimize(log_of(4), 0.8, rates={"u": 0.2}, config=BRIEF)
    assert isinstance(result.policy.policy, DeviationPolicy)
    assert isinstance(result.policy.policy.policy, FormulaPolicy)
