"""The stochastic gradient of a training: a few paths with the equation's values at their ends."""

from __future__ import annotations

import pytest
import torch

from bellman.exact_gradient import exact_gradient
from models.test_local_model import linear_log
from nopg.bellman import MultistepProblem
from nopg.bellman import _sampled as sampled
from nopg.bellman._sampled import SampledGradient
from nopg.models import LocalModel
from nopg.policies import LinearPolicy


@pytest.fixture(scope="module")
def problem() -> MultistepProblem:
    data = linear_log(200)
    found = MultistepProblem.build(LocalModel(data), data.states[:6], 0.9, horizon=5, num_nodes=40)
    return found.replace(num_parts=3)


def _law() -> LinearPolicy:
    return LinearPolicy([[-0.3, -0.2]])


def test_from_starts_and_nodes_by_their_visits_it_is_the_exact_gradient_in_the_mean(
    problem: MultistepProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """∂J is the mean over paths from the starts plus Σ μ over paths from the nodes, values held fixed."""
    monkeypatch.setattr(sampled, "_PATHS", 4_000)
    one = problem.replace(num_parts=1)
    policy, found = _law(), one.solve(_law())
    mass = float(found.visits.sum())
    drawn = torch.multinomial(
        found.visits[0], 4_000, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    whole = torch.zeros(1, 2, dtype=torch.float64)
    for pool, weight in ((one.starts, 1.0), (one.nodes.states[drawn], mass)):
        estimator = SampledGradient(one, pool)
        estimator._pools = [(pool, torch.ones(len(pool)).double().cumsum(dim=0))]
        whole += weight * estimator.estimate(policy, rng=torch.Generator()).direction[0]
    (exact,) = exact_gradient(one, policy)
    assert float((whole - exact).norm()) < 0.03 * float(exact.norm())


def test_the_equation_is_solved_in_every_tenth_estimate(problem: MultistepProblem) -> None:
    estimator, policy, returns = SampledGradient(problem, problem.starts), _law(), []
    for number in range(12):
        with torch.no_grad():
            policy.gain.mul_(0.97)
        before = problem.solve(policy).objective if number in (0, 10) else None
        returns.append(estimator.estimate(policy, rng=torch.Generator()).expected_return)
        assert before in (None, returns[-1])
    assert len(set(returns)) == 2
    assert returns[:10] == [returns[0]] * 10


def test_estimates_differ_by_their_paths_and_go_on_where_they_were(problem: MultistepProblem) -> None:
    policy, first = _law(), SampledGradient(problem, problem.starts)
    made = [first.estimate(policy, rng=torch.Generator()).direction[0] for _ in range(3)]
    assert not torch.equal(made[0], made[1])
    again, other = SampledGradient(problem, problem.starts), SampledGradient(problem, problem.starts)
    for _ in range(2):
        again.estimate(policy, rng=torch.Generator())
    other.load_state_dict(again.state_dict())
    assert torch.equal(other.estimate(policy, rng=torch.Generator()).direction[0], made[2])
