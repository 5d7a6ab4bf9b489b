"""Sigma points stand for a normal distribution: its moments up to the third, without any draw."""

import pytest
import torch

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.policies import GaussianMLPPolicy, GaussianPolicy, LinearPolicy


def policy(num_actions: int) -> GaussianPolicy:
    gain = torch.ones(num_actions, num_actions, dtype=torch.float64)
    return GaussianPolicy(LinearPolicy(gain), 0.5, num_action_samples=None)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_mean_covariance_and_third_moments_are_those_of_a_normal(d: int) -> None:
    noise = policy(d).noise(3, generator(0, "unused"))
    assert noise.shape == (2 * d, 3, d)
    z = noise[:, 0]
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(d, dtype=torch.float64))
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(d, dtype=torch.float64))
    third = torch.einsum("li,lj,lk->ijk", z, z, z) / len(z)
    torch.testing.assert_close(third, torch.zeros(d, d, d, dtype=torch.float64))


def test_the_mean_of_a_cubic_of_the_action_is_exact() -> None:
    """E[(μ + σz)³] = μ³ + 3μσ²."""
    actor = policy(1)
    states = torch.tensor([[0.7], [-2.0]], dtype=torch.float64)
    actions = actor.actions(states, actor.noise(2, generator(0, "unused")))
    mu, sigma = actor.moments(states)
    torch.testing.assert_close((actions**3).mean(dim=0), mu**3 + 3 * mu * sigma**2)


def test_they_are_the_same_for_every_generator_and_state() -> None:
    one, other = (policy(2).noise(4, generator(seed, "unused")) for seed in (0, 1))
    assert torch.equal(one, other)
    assert torch.equal(one, one[:, :1].expand_as(one))


def test_a_number_of_samples_still_means_draws() -> None:
    features, actions = torch.randn(9, 3, dtype=torch.float64), torch.randn(9, 1, dtype=torch.float64)
    drawn = GaussianMLPPolicy.from_data(features, actions, rng=generator(0, "policy"), num_action_samples=4)
    assert drawn.noise(5, generator(0, "a")).shape == (4, 5, 1)
    assert not torch.equal(drawn.noise(5, generator(0, "a")), drawn.noise(5, generator(1, "a")))
    assert drawn.num_action_samples == 4
    with pytest.raises(ArgumentError, match="num_action_samples is 0"):
        GaussianMLPPolicy.from_data(features, actions, rng=generator(0, "policy"), num_action_samples=0)
