import math
from dataclasses import replace

import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import NOPG, GradientEstimate, solution_gradient
from nopg.data import Transitions
from nopg.kernels import Bandwidths
from nopg.linalg import BiCGSTAB, DenseLU
from nopg.policies import LinearPolicy
from reference.problem_cases import (
    Case,
    gradient_cases,
    gradient_vs_autograd,
    gradient_vs_finite_differences,
    pendulum_case,
    random_case,
)


def flat(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])


def choice(*, terminated: bool = False) -> Case:
    """Return two samples at state 1 with actions 0 and 1 and rewards 2 and 5; a = θ s."""
    data = Transitions.from_arrays(
        [1.0, 1.0], [0.0, 1.0], [2.0, 5.0], [1.0, 1.0], terminated=[terminated] * 2, initial_states=[[1.0]]
    )
    return Case(data, Bandwidths.from_values([1.0], [1.0]), LinearPolicy([[0.3]]), discount=0.5)


def test_a_choice_between_two_actions_by_hand() -> None:
    (gradient,) = solution_gradient(choice().solution())

    # Every state sees 5 with share σ = σ(θ − ½) and 2 otherwise: J = (2 + 3σ)/(1 − γ).
    share = 1 / (1 + math.exp(0.2))
    assert gradient.item() == pytest.approx(2 * 3 * share * (1 - share))


def test_after_a_terminal_no_action_matters() -> None:
    (gradient,) = solution_gradient(choice(terminated=True).solution())

    # Only the first action is left: J = 2 + 3σ.
    share = 1 / (1 + math.exp(0.2))
    assert gradient.item() == pytest.approx(3 * share * (1 - share))


def test_the_gradient_agrees_with_finite_differences_in_every_case() -> None:
    errors = gradient_vs_finite_differences()
    assert set(errors) == set(gradient_cases())
    # Central differences at 10⁻⁵: truncation 10⁻¹⁰ J‴, rounding 10⁻¹⁵ J/10⁻⁵; both near 10⁻⁹ of the gradient.
    assert max(errors.values()) <= 1e-6, errors


def test_the_gradient_of_the_truncated_objective_is_that_of_autograd_in_every_case() -> None:
    errors = gradient_vs_autograd()
    assert set(errors) == set(gradient_cases())
    # Rounding times the condition of Λ, at most 2/(1 − .97).
    assert max(errors.values()) <= 1e-10, errors


def test_seven_candidates_make_another_objective_than_all() -> None:
    for case in gradient_cases().values():
        few = replace(case, search=replace(case.search, num_candidates=7))
        every = replace(case, search=replace(case.search, num_candidates=40))
        g = flat(solution_gradient(few.solution())), flat(solution_gradient(every.solution()))
        assert float((g[0] - g[1]).norm() / g[1].norm()) > 1e-4


def test_equal_rewards_leave_nothing_to_gain() -> None:
    case = random_case(60, policy="gaussian")
    case = replace(case, data=replace(case.data, rewards=torch.full((40,), -3.0).double()))
    # Rounding of q, which is −30 everywhere, over h² = .5.
    assert float(flat(solution_gradient(case.solution())).abs().max()) < 1e-11


def test_without_discount_only_the_actions_at_the_start_count() -> None:
    case = random_case(61, discount=0.0)
    elsewhere = replace(case.data, next_states=case.data.next_states + 1.0)
    moved = replace(case, data=elsewhere)
    assert torch.equal(flat(solution_gradient(case.solution())), flat(solution_gradient(moved.solution())))


def test_a_constant_added_to_all_rewards_does_not_turn_the_gradient() -> None:
    case = random_case(62, prior_mass=0.1)
    more = replace(case, data=replace(case.data, rewards=case.data.rewards + 1e6))
    g, shifted = (flat(solution_gradient(c.solution())) for c in (case, more))
    # q is 10⁷ and known to 10⁻⁹; the differences that make the gradient are of order 10.
    assert float((g - shifted).norm() / g.norm()) < 1e-8


def test_the_estimate_of_nopg_is_the_gradient_of_the_solution() -> None:
    case = random_case(63, policy="gaussian", prior_mass=0.1)
    problem = case.problem()
    estimate = NOPG(problem, solver=DenseLU()).estimate(case.policy, rng=generator(5))
    solution = problem.equation(case.policy, generator(5)).solve(DenseLU())

    assert estimate.expected_return == solution.expected_return
    assert torch.equal(flat(estimate.direction), flat(solution_gradient(solution)))
    assert [part.shape for part in estimate.direction] == [p.shape for p in case.policy.parameters()]
    assert estimate.norm == pytest.approx(float(flat(estimate.direction).norm()))
    assert dict(estimate.diagnostics) == {
        "unknown_mass": solution.unknown_mass,
        "products": 0,
        "q_error": solution.q_solution.error_bound,
        "mu_error": solution.mu_solution.error_bound,
    }


def test_a_step_along_the_estimate_raises_the_return_by_its_norm() -> None:
    case = pendulum_case()
    problem = case.problem()
    estimate = NOPG(problem, solver=DenseLU()).estimate(case.policy, rng=generator(0))

    step = 1e-4 / estimate.norm**2
    with torch.no_grad():
        for parameter, part in zip(case.policy.parameters(), estimate.direction, strict=True):
            parameter.add_(part, alpha=step)
    gain = NOPG(problem, solver=DenseLU()).estimate(case.policy, rng=generator(0)).expected_return
    # To first order the step gains 10⁻⁴; curvature counts at second.
    assert gain - estimate.expected_return == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize("warm_start", [True, False])
def test_a_warm_start_spares_the_products_of_an_unchanged_policy(warm_start: bool) -> None:
    case = pendulum_case()
    nopg = NOPG(case.problem(), solver=BiCGSTAB(), warm_start=warm_start)
    first, second = (nopg.estimate(case.policy, rng=generator(0)) for _ in range(2))

    assert first.diagnostics["products"] > 10
    assert (second.diagnostics["products"] == 2) is warm_start


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_a_residual_enters_the_gradient_at_first_order(tolerance: float) -> None:
    case = pendulum_case()
    problem = case.problem()
    exact = NOPG(problem, solver=DenseLU()).estimate(case.policy, rng=generator(0))
    loose = NOPG(problem, solver=BiCGSTAB(), tolerance=tolerance).estimate(case.policy, rng=generator(0))
    # 33 = 1/(1 − γ): what a residual can do to q and μ.
    error = flat(exact.direction) - flat(loose.direction)
    assert float(error.norm()) / exact.norm < 33 * tolerance


def test_the_norm_of_an_estimate_by_hand() -> None:
    parts = (torch.tensor([3.0], dtype=torch.float64), torch.tensor([[4.0]], dtype=torch.float64))
    assert GradientEstimate(parts, 0.0, {}).norm == 5.0
