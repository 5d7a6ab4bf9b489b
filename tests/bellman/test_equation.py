from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.errors import ArgumentError, SolverError
from nopg.kernels import Bandwidths
from nopg.linalg import BiCGSTAB, DenseLU, FixedPoint
from nopg.models import MonteCarlo
from nopg.models._candidates import CandidateSearch
from nopg.policies import LinearPolicy
from reference.problem_cases import Case, pendulum_case, random_case, return_certificate_cases

# Rounding of sums of some 60 terms of order 10, times 1/(1 − γ) of at most 33.
ROUNDING = 1e-12


def chain(*, terminated: bool = False, prior_mass: float = 0.0, unknown_value: float | None = None) -> Case:
    """Return two samples so far apart that each stands for itself: 1 leads to 2, 2 to itself."""
    data = Transitions.from_arrays(
        [0.0, 100.0],
        [0.0, 0.0],
        [1.0, 2.0],
        [100.0, 100.0],
        terminated=[False, terminated],
        initial_states=[[0.0]],
    )
    return Case(
        data=data,
        bandwidths=Bandwidths.from_values([1.0], [1.0]),
        policy=LinearPolicy([[0.0]]),
        discount=0.5,
        prior_mass=prior_mass,
        unknown_value=unknown_value,
    )


def test_one_sample_by_hand() -> None:
    data = Transitions.from_arrays([3.0], [1.0], [2.0], [5.0], initial_states=[[4.0]])
    solution = Case(
        data, Bandwidths.from_values([1.0], [1.0]), LinearPolicy([[7.0]]), discount=0.75
    ).solution()

    # Without prior mass one sample answers every question: q = r/(1 − γ), μ = 1/(1 − γ).
    assert solution.q.tolist() == pytest.approx([8.0])
    assert solution.mu.tolist() == pytest.approx([4.0])
    assert solution.expected_return == pytest.approx(8.0)
    assert solution.unknown_mass == 0.0


def test_a_chain_of_two_samples_by_hand() -> None:
    solution = chain().solution()

    # q₂ = 2 + ½q₂, q₁ = 1 + ½q₂; μ₁ = 1, μ₂ = ½(μ₁ + μ₂).
    assert solution.equation.operator.to_dense().tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert solution.q.tolist() == pytest.approx([3.0, 4.0])
    assert solution.mu.tolist() == pytest.approx([1.0, 1.0])
    assert solution.expected_return == pytest.approx(3.0)
    assert solution.value(torch.tensor([[0.0], [100.0]]).double()).tolist() == pytest.approx([3.0, 4.0])
    assert solution.visitation(torch.tensor([[0.0], [100.0]]).double()).tolist() == pytest.approx([1.0, 1.0])


def test_a_chain_that_ends_by_hand() -> None:
    solution = chain(terminated=True).solution()

    assert solution.equation.operator.to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert solution.q.tolist() == pytest.approx([2.0, 2.0])
    assert solution.mu.tolist() == pytest.approx([1.0, 0.5])
    assert solution.expected_return == pytest.approx(2.0)


def test_a_chain_with_prior_mass_by_hand() -> None:
    solution = chain(prior_mass=1.0, unknown_value=-4.0).solution()

    # At a sample ψφ = 1, so ε = m = ½: q₂ = 2 + ½(½q₂ − 2), q₁ = 1 + ½(½q₂ − 2), J = ½q₁ − 2;
    # μ₁ = ½, μ₂ = ¼(μ₁ + μ₂), U = ½ + ½ · ½(μ₁ + μ₂).
    assert solution.equation.targets.tolist() == pytest.approx([0.0, 1.0])
    assert solution.q.tolist() == pytest.approx([1 / 3, 4 / 3])
    assert solution.mu.tolist() == pytest.approx([1 / 2, 1 / 6])
    assert solution.expected_return == pytest.approx(-11 / 6)
    assert solution.unknown_mass == pytest.approx(2 / 3)
    assert solution.unknown_at(torch.zeros(1, 1).double()).tolist() == pytest.approx([0.5])
    # μ̃ = ε(s)ᵀμ/(1 − m) = μ₁ at the first sample.
    assert solution.visitation(torch.zeros(1, 1).double()).tolist() == pytest.approx([0.5])


def test_a_terminal_sample_owes_nothing_to_the_unknown() -> None:
    solution = chain(terminated=True, prior_mass=1.0, unknown_value=-4.0).solution()
    assert solution.equation.unknown.tolist() == pytest.approx([0.5, 0.0])
    assert solution.q.tolist() == pytest.approx([1 + 0.5 * (0.5 * 2.0 - 2.0), 2.0])


def test_an_unknown_value_is_the_users_or_the_worst_reward_for_ever() -> None:
    assert chain(prior_mass=1.0, unknown_value=-4.0).problem().unknown_value == -4.0
    assert chain(prior_mass=1.0).problem().unknown_value == pytest.approx(1.0 / 0.5)
    assert chain(prior_mass=1.0, terminated=True).problem().unknown_value == pytest.approx(1.0)


settings_of_cases = {
    "seed": st.integers(0, 10**6),
    "rows": st.integers(1, 30),
    "prior_mass": st.sampled_from([0.0, 1e-3, 0.5]),
    "discount": st.floats(0, 0.97),
    "terminals": st.booleans(),
}


@given(**settings_of_cases)
@settings(max_examples=100, deadline=None)
def test_values_visits_and_unknown_mass_obey_their_identities(
    seed: int, rows: int, prior_mass: float, discount: float, terminals: bool
) -> None:
    case = random_case(
        seed,
        rows=rows,
        policy="linear",
        starts=3,
        terminals=terminals,
        prior_mass=prior_mass,
        discount=discount,
    )
    solution = case.solution()
    equation, v = solution.equation, solution.equation.problem.unknown_value
    b, eps_0, q, mu = equation.targets, equation.initial_responsibilities, solution.q, solution.mu
    scale = 1 + float(q.abs().max()) + abs(v)

    # qⱼ = rⱼ + γ V̂(s′ⱼ), and nothing follows a terminal.
    follows = (~case.data.terminated).double() * solution.value(case.data.next_features)
    torch.testing.assert_close(q, case.data.rewards + discount * follows, rtol=0, atol=ROUNDING * scale)
    # Ĵ is the mean of V̂ over the initial states, and by duality μᵀb + m₀v.
    starts = case.data.schema.encode(case.data.starts)
    J = solution.expected_return
    assert float(solution.value(starts).mean()) == pytest.approx(J, abs=ROUNDING * scale)
    assert float(mu @ b) + equation.initial_unknown * v == pytest.approx(J, abs=ROUNDING * scale)
    # Mass: (1−γ)Σμ + γΣ_terminal μ + γμᵀm = Σε₀ = 1 − m₀, so that 0 ≤ U ≤ 1.
    balance = (1 - discount) * mu.sum() + discount * mu[case.data.terminated].sum()
    unknown = solution.unknown_mass
    assert float(balance) + unknown == pytest.approx(1.0, abs=ROUNDING)
    assert float(eps_0.sum()) + equation.initial_unknown == pytest.approx(1.0, abs=ROUNDING)
    assert -ROUNDING <= unknown <= 1 + ROUNDING
    assert bool((mu >= -ROUNDING).all())


@given(**settings_of_cases)
@settings(max_examples=50, deadline=None)
def test_the_checks_of_a_certificate_lie_within_its_bounds(
    seed: int, rows: int, prior_mass: float, discount: float, terminals: bool
) -> None:
    case = random_case(
        seed, rows=rows, policy="linear", terminals=terminals, prior_mass=prior_mass, discount=discount
    )
    equation = case.problem().equation(case.policy, generator(0))
    for solver, tolerance in ((DenseLU(), 1e-10), (BiCGSTAB(), 1e-4), (FixedPoint(), 1e-2)):
        certificate = equation.solve(solver, tolerance=tolerance).certificate
        b, eps_0 = equation.targets.abs().max(), equation.initial_responsibilities.sum()
        assert certificate.converged
        # ε₀ᵀq = μᵀb holds for the exact q and μ; rounding of the two products is within the bounds too.
        assert certificate.duality_gap <= float(eps_0) * certificate.q_error + certificate.mu_error * float(b)
        assert certificate.mass_defect <= (1 + discount) * certificate.mu_error


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_no_certified_return_is_off_by_more_than_its_bound(count: int) -> None:
    assert return_certificate_cases(count, seed=0) == {"cases": count, "expected return": 0}


def test_the_bound_on_the_return_is_near_rounding_after_a_dense_solve_with_all_samples() -> None:
    solution = replace(pendulum_case(), search=CandidateSearch(num_candidates=200)).solution()
    assert solution.certificate.cut_error == 0.0
    assert solution.certificate.return_error <= 1e-10 * abs(solution.expected_return)


def test_equal_rewards_are_worth_the_sum_of_their_discounts() -> None:
    case = random_case(30)
    solution = replace(case, data=replace(case.data, rewards=torch.full((40,), 2.0).double())).solution()
    assert solution.q.tolist() == pytest.approx([20.0] * 40)
    assert solution.expected_return == pytest.approx(20.0)


@pytest.mark.parametrize("prior_mass", [0.0, 0.1])
def test_a_bonus_on_every_reward_adds_its_discounted_sum(prior_mass: float) -> None:
    case = random_case(31, prior_mass=prior_mass, starts=2)
    more = replace(case, data=replace(case.data, rewards=case.data.rewards + 3.0))
    # With the default unknown value this holds in the unknown as well.
    gained = more.solution().expected_return - case.solution().expected_return
    assert gained == pytest.approx(30.0)


def test_the_value_of_a_stochastic_policy_is_the_mean_over_its_actions() -> None:
    case = random_case(32, policy="gaussian", prior_mass=0.1)
    solution = case.solution()
    features = case.data.features[:5]
    noise = case.policy.noise(5, generator(9, "query actions"))
    with torch.no_grad():
        actions = case.policy.actions(features, noise)

    by_action = torch.stack([solution.action_value(features, action) for action in actions])
    torch.testing.assert_close(solution.value(features, seed=9), by_action.mean(dim=0), rtol=0, atol=1e-12)


def test_drawn_next_states_enter_as_the_mean_of_their_values() -> None:
    case = random_case(33, integration=MonteCarlo(num_samples=4, seed=2), prior_mass=0.1)
    solution = case.solution()
    points = torch.as_tensor(case.dense_problem().next_points)  # (n, 4, d_f)

    V = solution.value(points.reshape(-1, 2)).reshape(40, 4).mean(dim=1)
    torch.testing.assert_close(solution.q, case.data.rewards + 0.9 * V, rtol=0, atol=1e-10)


def test_a_solve_that_stops_short_of_its_tolerance_is_refused_with_what_would_help() -> None:
    case = pendulum_case()
    equation = case.problem().equation(case.policy, generator(0))
    with pytest.raises(SolverError, match=r"the solve for q stopped at .* after 3 products.*use solver='lu'"):
        equation.solve(FixedPoint(max_steps=3), tolerance=1e-6)


def test_all_solvers_agree_within_their_bounds() -> None:
    case = pendulum_case(prior_mass=1e-3)
    equation = case.problem().equation(case.policy, generator(0))
    exact = equation.solve(DenseLU())
    for solver in (BiCGSTAB(), FixedPoint()):
        solution = equation.solve(solver, tolerance=1e-6)
        error = abs(solution.expected_return - exact.expected_return)
        assert error <= solution.certificate.return_error + exact.certificate.return_error


def test_a_start_at_the_solution_of_the_same_equation_needs_one_product_each() -> None:
    case = pendulum_case()
    equation = case.problem().equation(case.policy, generator(0))
    first = equation.solve(BiCGSTAB(), tolerance=1e-6)
    second = equation.solve(BiCGSTAB(), tolerance=1e-6, start=(first.q, first.mu))
    assert first.q_solution.num_steps > 1
    assert (second.q_solution.num_steps, second.mu_solution.num_steps) == (1, 1)


def test_an_equation_depends_on_its_generator_only_through_the_noise() -> None:
    gaussian, deterministic = random_case(34, policy="gaussian"), random_case(34)
    for case, same in ((gaussian, False), (deterministic, True)):
        problem = case.problem()
        returns = {problem.equation(case.policy, generator(k)).solve().expected_return for k in (0, 0, 1)}
        assert (len(returns) == 1) is same
    assert len({gaussian.solution().expected_return for _ in range(2)}) == 1


def test_a_policy_for_other_actions_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the policy has 2 actions, the data have 1"):
        chain().problem().equation(LinearPolicy([[0.0], [0.0]]), generator(0))


def test_action_values_for_actions_of_another_shape_are_refused() -> None:
    solution = chain().solution()
    with pytest.raises(ArgumentError, match="give one action of 1 numbers for each of 2 states"):
        solution.action_value(torch.zeros(2, 1).double(), torch.zeros(3, 1).double())


@pytest.mark.parametrize("scale", [1e-300, 1e-310, 1e-318, 1e-322])
def test_the_bound_on_the_return_holds_for_denormal_rewards(scale: float) -> None:
    assert return_certificate_cases(60, seed=1, scale=scale)["expected return"] == 0
