"""The size of an ascent's steps."""

from __future__ import annotations

import pytest
import torch

from nopg import TrainingConfig
from nopg.bellman import GradientEstimate
from nopg.policies import LinearPolicy, Policy
from nopg.policies._policy import trainable
from nopg.training._ascent import ascend

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


def climb(learning_rate: float, updates: int) -> Valley:
    valley, policy = Valley(), LinearPolicy([0.0, 0.0])
    config = TrainingConfig(updates=updates, learning_rate=learning_rate, seed=0)
    ascend(valley, policy, config, annealed=True)
    valley.estimate(policy, rng=torch.Generator())
    return valley


@pytest.mark.parametrize("learning_rate", [0.03, 0.1, 0.3])
def test_annealed_steps_come_to_rest_near_the_top(learning_rate: float) -> None:
    """The valley is −1001 at the start; at a constant rate the last steps would be as long as the first."""
    valley = climb(learning_rate, updates=200)
    assert valley.seen[-1] > -0.5
    assert abs(valley.seen[-1] - valley.seen[-2]) < 1e-4


class Scaled:
    """A valley whose unit is that many times larger or smaller."""

    def __init__(self, unit: float) -> None:
        self.valley, self.unit = Valley(), unit

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        found = self.valley.estimate(policy, rng=rng)
        direction = tuple(self.unit * part for part in found.direction)
        return GradientEstimate(direction, self.unit * found.expected_return, {})


@pytest.mark.parametrize("annealed", [False, True])
@pytest.mark.parametrize("exponent", [-700, -530, 560])
def test_an_ascent_does_not_depend_on_the_unit_of_rewards(exponent: int, annealed: bool) -> None:
    """Squares of gradients leave the range of floats beyond 2^±511; powers of two round nothing."""
    ends = []
    for unit in (1.0, 2.0**exponent):
        policy, config = LinearPolicy([0.0, 0.0]), TrainingConfig(updates=20, learning_rate=0.1, seed=0)
        history = ascend(Scaled(unit), policy, config, annealed=annealed)
        assert history[0].gradient_norm == pytest.approx(2_000.0 * unit, rel=1e-6)
        ends.append(trainable(policy)[0].detach())
    assert torch.allclose(ends[0], ends[1], rtol=1e-12, atol=0.0)
