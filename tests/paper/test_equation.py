import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from nopg import Bandwidths, Transitions
from nopg._seeding import generator
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError
from nopg.paper import PaperModel
from nopg.paper import _model as model_module
from nopg.policies import LinearPolicy
from nopg.policies._policy import trainable
from paper.dense import Case, cases, dense, flat, new_policy, random_case
from paper.test_solver import exact_solution, rational


def choice(*, terminated: bool = False) -> Case:
    """Return two samples at state 1 with actions 0 and 1 and rewards 2 and 5; a = θ s."""
    data = Transitions.from_arrays(
        [1.0, 1.0], [0.0, 1.0], [2.0, 5.0], [1.0, 1.0], terminated=[terminated] * 2, initial_states=[[1.0]]
    )
    return Case(data, Bandwidths.from_values([1.0], [1.0]), LinearPolicy([[0.3]]), discount=0.5)


def test_a_choice_between_two_actions_by_hand() -> None:
    # Every state sees 5 with share σ = σ(θ − ½) and 2 otherwise: J = (2 + 3σ)/(1 − γ).
    share = 1 / (1 + math.exp(0.2))
    solution = choice().solution()
    assert solution.expected_return == pytest.approx(2 * (2 + 3 * share))
    assert solution.gradient()[0].item() == pytest.approx(2 * 3 * share * (1 - share))
    assert float(solution.mu.sum()) == pytest.approx(2.0)


def test_after_a_terminal_nothing_follows_by_hand() -> None:
    share = 1 / (1 + math.exp(0.2))
    solution = choice(terminated=True).solution()
    assert solution.expected_return == pytest.approx(2 + 3 * share)
    assert solution.gradient()[0].item() == pytest.approx(3 * share * (1 - share))
    assert solution.q.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("name", cases())
def test_the_equation_and_its_gradient_are_those_of_the_dense_reference(name: str) -> None:
    case = cases()[name]
    ours, theirs = case.solution(), dense(case)
    # Rounding times the condition of Λ, at most 2/(1 − .97).
    np.testing.assert_allclose(ours.equation.P.toarray(), theirs.P, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(ours.q.numpy(), theirs.q, rtol=1e-10)
    np.testing.assert_allclose(ours.mu.numpy(), theirs.mu, rtol=1e-10, atol=1e-14)
    assert ours.expected_return == pytest.approx(theirs.expected_return, rel=1e-11)
    assert ours.unknown_mass == pytest.approx(theirs.unknown_mass, rel=1e-10, abs=1e-15)
    g = flat(ours.gradient())
    assert float((g - flat(theirs.gradient)).norm()) <= 1e-9 * float(g.norm())
    assert ours.certificate.converged
    assert abs(ours.expected_return - theirs.expected_return) <= ours.certificate.return_error


@pytest.mark.parametrize("name", ["deterministic", "all at once"])
def test_the_gradient_agrees_with_finite_differences(name: str) -> None:
    case = cases()[name]
    g, step, found = flat(case.solution().gradient()), 1e-5, []
    for parameter in trainable(case.policy):
        for k in range(parameter.numel()):
            ends = []
            for sign in (1.0, -2.0):
                with torch.no_grad():
                    parameter.view(-1)[k] += sign * step
                ends.append(case.solution().expected_return)
            with torch.no_grad():
                parameter.view(-1)[k] += step
            found.append((ends[0] - ends[1]) / (2 * step))
    # Central differences at 10⁻⁵: truncation 10⁻¹⁰ J‴, rounding 10⁻¹⁵ J/10⁻⁵; both near 10⁻⁹ of the gradient.
    assert float((g - torch.tensor(found)).norm()) <= 1e-6 * float(g.norm())


def test_a_constant_added_to_all_rewards_does_not_turn_the_gradient() -> None:
    case = random_case(62, prior_mass=0.1)
    more = replace(case, data=replace(case.data, rewards=case.data.rewards + 1e6))
    g, shifted = (flat(one.solution().gradient()) for one in (case, more))
    # q is 10⁷ and known to 10⁻⁹; the differences that make the gradient are of order 10.
    assert float((g - shifted).norm()) < 1e-8 * float(g.norm())


def test_rows_twice_are_rows_of_weight_two() -> None:
    case = random_case(63, prior_mass=0.1)
    data, rows = case.data, torch.arange(40).repeat(2)
    starts = data.initial_states
    twice = replace(data.take(rows), initial_states=starts)
    heavy = replace(data, weights=torch.full((40,), 2.0, dtype=torch.float64))
    one, other = (replace(case, data=each).solution() for each in (twice, heavy))
    assert one.expected_return == pytest.approx(other.expected_return, rel=1e-12)
    assert torch.allclose(flat(one.gradient()), flat(other.gradient()), rtol=1e-10)


@pytest.mark.parametrize("change", ["rows permuted", "reward times 7", "states scaled", "angle turned"])
def test_nothing_depends_on_how_the_data_are_written(change: str) -> None:
    case = random_case(64, angle=True, terminals=True, policy="linear")
    base, data, factor = case.solution().expected_return, case.data, 1.0
    if change == "rows permuted":
        rows = torch.randperm(40, generator=generator(0, "order"))
        case = replace(case, data=replace(data.take(rows), initial_states=data.initial_states))
    elif change == "reward times 7":
        case, factor = replace(case, data=replace(data, rewards=7 * data.rewards)), 7.0
    elif change == "angle turned":
        turn = torch.tensor([2 * torch.pi, 0.0], dtype=torch.float64)
        moved = replace(data, states=data.states + turn, next_states=data.next_states - turn)
        case = replace(case, data=moved)
    else:
        scale = torch.tensor([1.0, 50.0], dtype=torch.float64)
        h, wide = case.bandwidths, torch.tensor([1.0, 1.0, 50.0], dtype=torch.float64)
        assert data.initial_states is not None
        written = replace(
            data,
            states=data.states * scale,
            next_states=data.next_states * scale,
            initial_states=data.initial_states * scale,
        )
        assert isinstance(case.policy, LinearPolicy)
        policy = LinearPolicy(case.policy.gain.detach() / wide)
        case = replace(case, data=written, bandwidths=Bandwidths(h.states * wide, h.actions), policy=policy)
    assert case.solution().expected_return == pytest.approx(factor * base, rel=1e-10)


def grid_case(rows: tuple[int, int, int] = (34, 34, 2), discount: float = 0.95) -> Case:
    data = collect_grid(Pendulum(), rows)
    h = Bandwidths.from_values([0.1, 0.1, 0.2], [2.0])
    return Case(data, h, new_policy("network", data), discount=discount, prior_mass=1e-6)


def test_the_cut_changes_no_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    case = grid_case()
    cut = case.solution()
    assert cut.equation.P.nnz < 0.7 * len(case.data) ** 2
    monkeypatch.setattr(model_module, "_ALL_UP_TO", 10_000)
    whole = case.solution()
    assert whole.cut_error == 0.0
    error = abs(cut.expected_return - whole.expected_return)
    assert error <= cut.cut_error
    assert cut.cut_error <= 1e-2 * abs(whole.expected_return)
    g, h = flat(whole.gradient()), flat(cut.gradient())
    assert float((g - h).norm()) <= 1e-3 * float(g.norm())


def test_a_state_whose_actions_lie_far_from_those_around_it_gets_other_samples() -> None:
    # Above 200 rows, near s = 0 only a = 0 was tried, while a = 3 was tried at s = ±2, far by ψ.
    rng = np.random.default_rng(0)
    s = np.concatenate([0.01 * rng.normal(size=1_200), np.repeat([-2.0, 2.0], 50)])
    a = np.concatenate([np.zeros(1_200), np.full(100, 3.0)])
    data = Transitions.from_arrays(s, a, s, s, initial_states=[[0.0]])
    model = PaperModel(data, Bandwidths.from_values([0.4], [0.25]))
    weights = model.at(torch.zeros(1, 1, dtype=torch.float64)).weights(torch.full((1, 1, 1), 3.0).double())
    assert float(weights.lost[0, 0]) < 1e-3
    assert float(weights.mean[:, 1_200:].sum()) == pytest.approx(1.0)


def test_with_many_rows_the_sparse_solution_is_that_of_lu() -> None:
    case = grid_case((36, 36, 2), discount=0.99)
    solution = case.solution()
    equation = solution.equation
    q = np.linalg.solve(np.eye(len(case.data)) - 0.99 * equation.P.toarray(), equation.targets)
    assert np.abs(q - solution.q.numpy()).max() <= solution.certificate.q_error
    assert solution.q_solution.num_steps > 0
    assert solution.certificate.duality_gap <= 1e-6 * abs(solution.expected_return)


def test_the_certificate_of_the_return_holds_in_exact_arithmetic() -> None:
    rng = np.random.default_rng(0)
    for k in range(60):
        case = random_case(
            k,
            rows=6,
            terminals=k % 2 == 0,
            starts=1 + k % 3,
            discount=1 - 10.0 ** rng.uniform(-2, 0),
            prior_mass=float(rng.choice([0.0, 1e-3, 1.0])),
        )
        scale = 10.0 ** rng.uniform(-150, 150) if k % 4 == 0 else 1.0
        # Starts lie up to 5 bandwidths away, so ε₀ may be tiny.
        starts, data = case.data.starts * rng.choice([1.0, 5.0]), case.data
        case = replace(case, data=replace(data, initial_states=starts, rewards=scale * data.rewards))
        solution = case.solution()
        equation = solution.equation
        P, gamma = rational(equation.P.toarray()), Fraction(case.discount)
        q = exact_solution(rational(np.eye(6)) - gamma * P, equation.targets)
        unknown = Fraction(equation.initial_unknown) * Fraction(solution.problem.unknown_value)
        exact = (rational(equation.eps_0) @ q) + unknown
        assert abs(Fraction(solution.expected_return) - exact) <= Fraction(solution.certificate.return_error)


def test_far_from_all_data_the_unknown_value_or_the_nearest_sample_is_taken() -> None:
    far = torch.full((1, 2), 1e6, dtype=torch.float64)
    case = replace(random_case(65, prior_mass=1e-3), unknown_value=-7.0)
    known = case.solution()
    assert known.value(far).item() == pytest.approx(-7.0)
    assert known.unknown_at(far).item() == pytest.approx(1.0)
    assert known.visitation(far).item() > 0
    solution = replace(case, prior_mass=0.0).solution()
    places = (case.data.features / case.bandwidths.states - far / case.bandwidths.states).square().sum(dim=1)
    assert solution.value(far).item() == pytest.approx(solution.q[places.argmin()].item())
    assert solution.unknown_at(far).item() == 0.0


def test_values_and_visits_are_the_formulas() -> None:
    case = random_case(66, prior_mass=0.1)
    solution, reference = case.solution(), dense(case)
    assert solution.value(case.problem().initial.features).item() == pytest.approx(reference.expected_return)
    visited, weights = solution.visited()
    assert float(weights.sum()) == pytest.approx(1.0)
    assert len(visited) == 41


def test_an_infinite_or_far_action_is_refused_in_words() -> None:
    case = random_case(67)
    with torch.no_grad():
        for parameter in case.policy.parameters():
            parameter.fill_(torch.nan)
    with pytest.raises(ArgumentError, match="NaN, infinite or over 1e150 bandwidths away"):
        case.solution()
    with pytest.raises(ArgumentError, match="query states are NaN"):
        case.problem().model.at(torch.full((1, 2), torch.inf))
