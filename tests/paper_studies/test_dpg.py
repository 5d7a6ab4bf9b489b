"""The semi-gradient on the regulator: right on its own data, wrong on others'."""

import pytest
import torch

from nopg.errors import SolverError
from nopg.policies import LinearPolicy
from paper_studies.regulator_data import GAMMA, cosine, own_data, papers_data
from studies.baselines import DPG
from studies.paper._regulator import exact_gradient, exact_return

RNG = torch.Generator()


@pytest.mark.parametrize("gain", [(-3.0, -2.0), (-1.5, -1.0)])
@pytest.mark.parametrize("std", [0.1, 1.0])
def test_on_policy_it_points_along_the_exact_gradient(gain: tuple[float, float], std: float) -> None:
    estimator = DPG(own_data(gain, std, seed=0), GAMMA, critic_steps=1_000)
    (direction,) = estimator.estimate(LinearPolicy(gain), rng=RNG).direction
    assert cosine(direction, exact_gradient(gain)) > 0.99


def test_off_policy_it_points_away_from_it() -> None:
    """Datasets of the supplement's behaviour; the policy is one that NOPG passes on its way."""
    gain = (-3.0, -2.0)
    cosines = []
    for seed in range(2):
        estimator = DPG(papers_data(seed), GAMMA, critic_steps=1_000)
        (direction,) = estimator.estimate(LinearPolicy(gain), rng=RNG).direction
        cosines.append(cosine(direction, exact_gradient(gain)))
    assert max(cosines) < 0


def test_its_critic_is_exact_where_the_form_is() -> None:
    """Q of a regulator is quadratic, so a converged critic knows the value."""
    gain = (-5.0, -3.0)
    estimator = DPG(own_data(gain, 0.5, seed=0), GAMMA, critic_steps=400, target_rate=1.0)
    estimate = estimator.estimate(LinearPolicy(gain), rng=RNG)
    assert estimate.expected_return == pytest.approx(float(exact_return(gain, steps=300)), rel=1e-9)
    assert estimate.diagnostics["bellman_error"] < 1e-9


def test_the_supplements_form_cannot_know_the_state() -> None:
    """Without products of state and action, the slope in u at u = Kx is 2RKx: never 0 but at K = 0."""
    gain = (-5.0, -3.0)
    data = own_data(gain, 1.0, seed=0)
    slopes = {}
    for cross in (True, False):
        estimator = DPG(data, GAMMA, critic_steps=1_000, cross=cross)
        (slopes[cross],) = estimator.estimate(LinearPolicy(gain), rng=RNG).direction
    exact = exact_gradient(gain)
    assert cosine(slopes[True], exact) > 0.99
    assert cosine(slopes[False], exact) < 0.5


def test_a_critic_that_diverges_says_so() -> None:
    data = own_data((-3.0, -2.0), 0.5, seed=0)
    with pytest.raises(SolverError, match="the critic diverged"):
        DPG(data, GAMMA, critic_steps=1_000, target_rate=1.0).estimate(LinearPolicy([40.0, 40.0]), rng=RNG)
