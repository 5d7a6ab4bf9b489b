"""Importance sampling against sums by hand, and against the exact gradient of the regulator."""

import math

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import LQR, Pendulum, UniformAgent, collect, collect_grid
from nopg.errors import ArgumentError, DataError
from nopg.policies import GaussianMLPPolicy, GaussianPolicy, LinearPolicy
from paper_studies.regulator_data import BEHAVIOR, GAMMA, SIGMA, log_behavior, logged_episodes, pwis_policy
from studies.baselines import PWIS, LoggedEpisodes
from studies.paper._regulator import exact_gradient, exact_return
from studies.paper_data import MixtureOfGaussians, log_density


def by_hand(logged: LoggedEpisodes, target: GaussianPolicy) -> torch.Tensor:
    """Return ∂J/∂K by explicit sums over episodes, times and score functions."""
    data, sigma2 = logged.data, SIGMA**2
    assert isinstance(target.mean, LinearPolicy)
    gain = target.mean.gain.detach()
    terms = []
    for number in range(int(logged.episode[-1]) + 1):
        rows = (logged.episode == number).nonzero()[:, 0].tolist()
        steps = []
        for row in rows:
            x, u = data.states[row], data.actions[row]
            new, old = u - gain * x, u - torch.tensor(BEHAVIOR, dtype=torch.float64) * x
            ratio = math.exp(float((old.square() - new.square()).sum() / (2 * sigma2)))
            steps.append((ratio, new * x / sigma2, float(data.rewards[row])))
        terms.append(steps)

    N, T = len(terms), len(terms[0])
    rho = [[math.prod(step[0] for step in steps[: t + 1]) for t in range(T)] for steps in terms]
    score = [[sum((step[1] for step in steps[: t + 1]), torch.zeros(2)) for t in range(T)] for steps in terms]
    total = torch.zeros(2, dtype=torch.float64)
    for t in range(T):
        rewards = [steps[t][2] for steps in terms]
        for i in range(N):
            total += GAMMA**t * rho[i][t] * rewards[i] * score[i][t] / N
    return total


def test_it_equals_explicit_sums_on_three_steps() -> None:
    logged, target = logged_episodes(4, 3, seed=0), pwis_policy((0.3, -0.42))
    (direction,) = PWIS(logged, GAMMA).estimate(target, rng=generator(0, "none")).direction
    expected = by_hand(logged, target)
    assert torch.allclose(direction, expected, rtol=1e-12, atol=1e-12 * float(expected.norm()))


@pytest.mark.slow
def test_it_is_unbiased_on_the_regulator() -> None:
    gains, steps = (0.45, -0.45), 3
    estimates = [
        PWIS(logged_episodes(50, steps, seed), GAMMA).estimate(pwis_policy(gains), rng=generator(0, "none"))
        for seed in range(2_000)
    ]
    slopes = torch.stack([estimate.direction[0] for estimate in estimates])
    returns = torch.tensor([[estimate.expected_return] for estimate in estimates])
    for values, exact in (
        (slopes, exact_gradient(gains, SIGMA, steps=steps)),
        (returns, exact_return(gains, SIGMA, steps=steps)),
    ):
        error = values.std(dim=0) / math.sqrt(len(values))
        assert bool(((values.mean(dim=0) - exact).abs() < 3 * error).all())
        assert bool((error < 0.2 * exact.abs()).all())  # three of these must mean something


def test_its_gradient_is_that_of_its_return() -> None:
    """Central differences, for a network on clipped actions."""
    plant, agent = Pendulum(), MixtureOfGaussians()
    low, high = plant.action_low, plant.action_high
    data = collect(plant, agent, episodes=5, steps=4, seed=0)
    logged = LoggedEpisodes.from_transitions(data, lambda _, a: log_density(agent, a, low=low, high=high))
    assert bool((data.actions.abs() == 2).any())  # some are clipped
    net = GaussianMLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"), hidden=4)
    estimator = PWIS(logged, 0.97, low=low, high=high)
    direction = estimator.estimate(net, rng=generator(0, "none")).direction
    parameters = list(net.parameters())
    for parameter, slope in zip(parameters, direction, strict=True):
        probe = torch.randn(parameter.shape, generator=generator(1, "probe"), dtype=torch.float64)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * 1e-5 * probe)
            ends.append(estimator.estimate(net, rng=generator(0, "none")).expected_return)
            with torch.no_grad():
                parameter.sub_(sign * 1e-5 * probe)
        assert float((slope * probe).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)


def test_an_episode_that_ended_counts_with_reward_0_afterwards() -> None:
    """Two episodes, one of which terminates after a step: by hand, with weights of one."""
    data = Transitions.from_arrays(
        [0.0, 0.0, 1.0],
        [0.0, 0.0, 0.0],
        [1.0, 1.0, 4.0],
        [5.0, 1.0, 2.0],
        terminated=[True, False, False],
        episodes=[0, 1, 1],
    )
    logged = LoggedEpisodes.from_transitions(data, lambda s, _: torch.zeros(len(s), dtype=torch.float64))
    like = GaussianPolicy(LinearPolicy([[0.0]]), 1 / math.sqrt(2 * math.pi))  # density 1 at 0
    estimate = PWIS(logged, 0.5).estimate(like, rng=generator(0, "none"))
    assert estimate.expected_return == pytest.approx((1 + 1 + 0.5 * 4) / 2)


def test_what_has_no_importance_weights_is_refused() -> None:
    with pytest.raises(DataError, match="belong to none"):
        LoggedEpisodes.from_transitions(collect_grid(Pendulum(), (3, 3, 2)), log_behavior)
    data = collect(LQR(), pwis_policy(), episodes=2, steps=5, seed=0)
    with pytest.raises(DataError, match="2 episodes fall into 3 unbroken stretches"):
        LoggedEpisodes.from_transitions(data.take(torch.tensor([0, 1, 3, 4, 5, 6])), log_behavior)
    elsewhere = UniformAgent((7.0, 7.0), (8.0, 8.0))
    with pytest.raises(DataError, match="10 of 10 logged actions have density 0"):
        LoggedEpisodes.from_transitions(data, lambda _, a: log_density(elsewhere, a))
    with pytest.raises(ArgumentError, match="needs a stochastic policy"):
        PWIS(logged_episodes(2, 3, 0), GAMMA).estimate(LinearPolicy([0.1, 0.1]), rng=generator(0, "none"))
