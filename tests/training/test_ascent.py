"""The size of an ascent's steps on a deterministic objective."""

from __future__ import annotations

import pytest
import torch

from nopg import TrainingConfig
from nopg.bellman import GradientEstimate
from nopg.bellman._multistep_solution import lower_end
from nopg.policies import LinearPolicy, Policy
from nopg.policies._policy import trainable
from nopg.training._ascent import ascend
from nopg.training._backtracking import Backtracking

STEEP = torch.tensor([1_000.0, 1.0], dtype=torch.float64)


class Valley:
    """−Σ cᵢ(θᵢ − 1)², much steeper along one parameter than along the other."""

    def __init__(self) -> None:
        self.seen = list[float]()

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        del rng
        (theta,) = trainable(policy)
        apart = theta.detach() - 1.0
        self.seen.append(-float((STEEP * apart.square()).sum()))
        return GradientEstimate((-2.0 * STEEP * apart,), self.seen[-1], {})


def climb(learning_rate: float, updates: int) -> tuple[Valley, Policy]:
    valley, policy = Valley(), LinearPolicy([0.0, 0.0])
    steps = Backtracking(return_range=1_001.0)
    ascend(
        valley,
        policy,
        TrainingConfig(updates=updates, learning_rate=learning_rate, seed=0),
        backtracking=steps,
    )
    return valley, policy


@pytest.mark.parametrize("learning_rate", [0.03, 0.1, 1.0, 10.0])
def test_steps_of_any_size_go_up_and_the_best_policy_is_kept(learning_rate: float) -> None:
    valley, policy = climb(learning_rate, updates=60)
    assert max(valley.seen) > -10.0  # −1001 at the start
    assert Valley().estimate(policy, rng=torch.Generator()).expected_return == max(valley.seen)


def test_no_update_is_spent_on_a_policy_that_was_seen_already() -> None:
    valley, _ = climb(10.0, updates=20)
    assert len(set(valley.seen)) == 20


def test_a_step_is_three_tenths_at_first_grows_by_half_after_a_rise_and_halves_after_a_fall() -> None:
    policy = LinearPolicy([0.0])
    optimizer = torch.optim.Adam(policy.parameters())
    steps, zero = Backtracking(return_range=100.0), [torch.zeros(1, dtype=torch.float64)]
    scales = [steps.scale]
    # A fall of less than .002 of the range, .2, is none.
    for objective in (0.0, 1.0, 0.81, 0.79, 2.0, 3.0, 4.0):
        steps.review(policy, optimizer, objective, zero)
        scales.append(steps.scale)
    expected = [0.3, 0.45, 0.675, 0.675, 0.3375, 0.50625, 0.759375, 1.0]
    assert scales == pytest.approx(expected)


class Scaled:
    """A valley whose unit is that many times larger or smaller."""

    def __init__(self, unit: float) -> None:
        self.valley, self.unit = Valley(), unit

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        found = self.valley.estimate(policy, rng=rng)
        direction = tuple(self.unit * part for part in found.direction)
        return GradientEstimate(direction, self.unit * found.expected_return, {})


@pytest.mark.parametrize("exponent", [-700, -560, -530, 0, 500, 560])
def test_an_ascent_does_not_depend_on_the_unit_of_rewards(exponent: int) -> None:
    """Squares of gradients leave the range of floats beyond 2^±511; powers of two round nothing."""
    ends = []
    for unit in (1.0, 2.0**exponent):
        policy, config = LinearPolicy([0.0, 0.0]), TrainingConfig(updates=20, learning_rate=0.1, seed=0)
        history = ascend(Scaled(unit), policy, config, backtracking=Backtracking(1_001.0 * unit))
        assert history[0].gradient_norm == pytest.approx(2_000.0 * unit, rel=1e-6)
        ends.append(trainable(policy)[0].detach())
    assert torch.allclose(ends[0], ends[1], rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-160, 1e140])
def test_the_lower_end_of_an_interval_does_not_depend_on_the_unit_of_rewards(unit: float) -> None:
    returns = torch.tensor([1.0, 1.3, 0.8], dtype=torch.float64)
    low, weights = lower_end(returns, 0.1, 2.0)
    scaled, same = lower_end(unit * returns, 0.1 * unit, 2.0)
    # J₀ − k·1.3·√((0.3² + 0.2²)/2 + 0.1²)
    assert low == pytest.approx(1.0 - 2.6 * (0.065 + 0.01) ** 0.5, rel=1e-12)
    assert scaled == pytest.approx(unit * low, rel=1e-12)
    assert torch.allclose(same, weights, rtol=1e-12)
