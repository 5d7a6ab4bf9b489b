"""The exact estimator against finite differences and against simulation."""

import pytest
import torch

from nopg import TrainingConfig
from nopg._seeding import generator
from nopg.envs import LQR, collect, simulate
from nopg.errors import ArgumentError
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from nopg.training._ascent import ascend
from studies.baselines import ExactLQR
from studies.lqr_analysis import optimal_gain

RNG = torch.Generator()


@pytest.mark.parametrize("horizon", [None, 1, 30])
@pytest.mark.parametrize("std", [None, (0.1, 0.3)])
def test_the_direction_is_the_slope_of_the_return(
    horizon: int | None, std: tuple[float, float] | None
) -> None:
    exact, gain = ExactLQR(LQR(), horizon=horizon), torch.tensor([-3.0, -2.0], dtype=torch.float64)

    def build(at: torch.Tensor) -> Policy:
        return LinearPolicy(at) if std is None else GaussianPolicy(LinearPolicy(at), std)

    (direction,) = exact.estimate(build(gain), rng=RNG).direction
    for k, unit in enumerate(torch.eye(2, dtype=torch.float64)):
        high, low = (exact.estimate(build(gain + s * 1e-5 * unit), rng=RNG).expected_return for s in (1, -1))
        assert float(direction[k]) == pytest.approx((high - low) / 2e-5, rel=1e-6)


def test_noise_costs_what_it_costs_in_simulation() -> None:
    lqr, noisy = LQR(), GaussianPolicy(LinearPolicy([-3.0, -2.0]), (0.5, 0.8))
    draw = generator(0, "noise")

    def act(states: torch.Tensor) -> torch.Tensor:
        mean, std = noisy.moments(states)
        return mean + std * torch.randn(mean.shape, generator=draw, dtype=torch.float64)

    returns = simulate(lqr, act, steps=30, num_episodes=20_000).discounted_returns(0.9)
    error = float(returns.std()) / len(returns) ** 0.5
    expected = ExactLQR(lqr, horizon=30).estimate(noisy, rng=RNG).expected_return
    assert abs(float(returns.mean()) - expected) < 3 * error
    quiet = ExactLQR(lqr, horizon=30).estimate(LinearPolicy([-3.0, -2.0]), rng=RNG).expected_return
    assert quiet - expected > 20 * error


def test_the_same_loop_trains_it_to_the_optimum() -> None:
    lqr, policy = LQR(), LinearPolicy([-3.0, -2.0])
    ascend(ExactLQR(lqr), policy, TrainingConfig(updates=400, learning_rate=0.1, seed=0))
    assert policy.gain.tolist() == pytest.approx(optimal_gain(lqr).diagonal().tolist(), abs=1e-2)


def test_a_policy_that_is_not_linear_is_refused() -> None:
    data = collect(LQR(), lambda s: -s, episodes=1, steps=3, seed=0)
    from nopg.policies import MLPPolicy

    network = MLPPolicy.from_data(data.features, data.actions, rng=RNG)
    with pytest.raises(ArgumentError, match="known for linear policies only, not for MLPPolicy"):
        ExactLQR(LQR()).estimate(network, rng=RNG)
