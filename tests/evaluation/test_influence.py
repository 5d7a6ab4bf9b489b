"""Influence of transitions on the answer, against answers with other weights."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import BellmanSolution, ControlProblem
from nopg.data import Transitions
from nopg.environments import CartPole, balancing_feedback
from nopg.errors import ArgumentError
from nopg.evaluation import PolicyLaw, bootstrap_returns, equation_answer, influence
from nopg.graph import LocalLinear, MonteCarlo, NadarayaWatson
from nopg.kernels import Bandwidths
from nopg.policies import GaussianMLPPolicy, Policy
from nopg.rollouts import UniformAgent, collect

H = Bandwidths.from_values([0.05, 0.3, 0.05, 0.2, 0.6], [3.0], [0.05, 0.3, 0.05, 0.2, 0.6])


@pytest.fixture(scope="module")
def data() -> Transitions:
    plant = CartPole()
    log = collect(plant, UniformAgent.within(plant), episodes=30, steps=20, seed=0)
    assert bool(log.terminated.any())
    return log


def solution(data: Transitions, policy: Policy, **options: object) -> BellmanSolution:
    model = NadarayaWatson(data, H, prior_mass=1e-2, **options)  # type: ignore[arg-type]
    problem = ControlProblem.build(
        model, data.schema.encode(data.starts[:5]), discount=0.95, unknown_value=-1.0
    )
    return problem.equation(policy, generator(0, "actions")).solve(tolerance=1e-13)


def policies(data: Transitions) -> dict[str, Policy]:
    law = balancing_feedback(CartPole())
    return {
        "deterministic": PolicyLaw.of(lambda states: law(states).clamp(-5, 5), data.schema),
        "gaussian": GaussianMLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy")),
    }


@pytest.mark.parametrize("kind", ["deterministic", "gaussian"])
@pytest.mark.parametrize("integration", [None, MonteCarlo(3)])
def test_influence_is_the_derivative_by_the_weight_of_a_transition(
    data: Transitions, kind: str, integration: MonteCarlo | None
) -> None:
    policy, options = policies(data)[kind], {} if integration is None else {"integration": integration}
    found = influence(solution(data, policy, **options))
    largest = found.abs().argsort(descending=True)[:3].tolist()
    for row in [*largest, 7]:

        def reweighted(log_weight: float, row: int = row) -> float:
            weights = torch.ones(len(data), dtype=torch.float64)
            weights[row] = math.exp(log_weight)
            return solution(replace(data, weights=weights), policy, **options).expected_return

        # Central differences: the error of the step is about its square.
        slope = (reweighted(1e-5) - reweighted(-1e-5)) / 2e-5
        assert abs(slope - float(found[row])) <= 1e-6 * float(found.abs().max())


def test_the_standard_error_is_that_of_a_bootstrap_over_episodes(data: Transitions) -> None:
    solved = solution(data, policies(data)["deterministic"])
    answer, drawn = equation_answer(solved), bootstrap_returns(solved, 400)
    # The jackknife is linear, and 400 draws know a deviation to a twentieth.
    assert answer.standard_error == pytest.approx(float(drawn.std()), rel=0.3)
    assert len(answer.influential_groups(5)) == 5


def test_a_draw_of_the_bootstrap_is_a_solve_with_these_weights(data: Transitions) -> None:
    policy = policies(data)["deterministic"]
    weights = torch.rand(30, dtype=torch.float64, generator=generator(0, "bootstrap"))
    episode = -weights.log()
    solved = solution(data, policy)
    (drawn,) = bootstrap_returns(solved, 1).tolist()
    again = solution(replace(data, weights=episode[data.episodes]), policy)
    # Draws are solved to four digits.
    assert drawn == pytest.approx(again.expected_return, rel=1e-3)


def test_influences_sum_to_what_all_weights_together_do(data: Transitions) -> None:
    policy = policies(data)["deterministic"]
    found = float(influence(solution(data, policy)).sum())

    def all_times(factor: float) -> float:
        weights = torch.full((len(data),), factor, dtype=torch.float64)
        return solution(replace(data, weights=weights), policy).expected_return

    slope = (all_times(math.exp(1e-5)) - all_times(math.exp(-1e-5))) / 2e-5
    assert found == pytest.approx(slope, rel=1e-5)


def test_another_model_has_no_samples_for_nodes(data: Transitions) -> None:
    model = LocalLinear(data, H.state_kernel)
    problem = ControlProblem.build(model, data.schema.encode(data.starts[:5]), discount=0.9)
    solved = problem.equation(policies(data)["deterministic"], generator(0, "actions")).solve()
    with pytest.raises(ArgumentError, match="another model"):
        influence(solved)
