import math
from dataclasses import replace

import pytest
import torch

from nopg.bellman import ControlProblem, PaperProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.models import MonteCarlo, PaperModel
from reference.problem_cases import Case, PolicyKind, edge_cases, far_features, random_case, with_bandwidth

PRIOR_MASSES = [0.0, 1e-9, 0.1]


def nearest_sample(case: Case, features: torch.Tensor, actions: torch.Tensor | None = None) -> torch.Tensor:
    """Return the sample with the largest ψ, or ψφ under one action each."""
    squared = ((features[:, None] - case.data.features) / case.bandwidths.states).square().sum(dim=-1)
    if actions is not None:
        apart = (actions[:, None] - case.data.actions) / case.bandwidths.actions
        squared += apart.square().sum(dim=-1)
    return squared.argmin(dim=1)


def test_every_edge_has_a_finite_answer_or_a_named_error() -> None:
    answers = edge_cases()

    named = {edge: answer.split(":")[0] for edge, answer in answers.items() if "Error" in answer}
    assert named == {
        "bandwidths 1e-200": "ArgumentError",
        "γ = 1": "ArgumentError",
        "γ = -0.1": "ArgumentError",
        "γ = nan": "ArgumentError",
        "a policy of NaN": "ArgumentError",
        "value of a state of NaN": "ArgumentError",
        "value 1e200 bandwidths away": "ArgumentError",
        "no data": "DataError",
    }
    assert len(answers) > len(named)
    assert not any("nan" in answer for edge, answer in answers.items() if edge not in named)


@pytest.mark.parametrize("bandwidths", [1e2, 1e6, 1e12])
@pytest.mark.parametrize("kind", ["mlp", "gaussian"])
def test_far_from_the_data_without_prior_mass_the_nearest_sample_speaks(
    bandwidths: float, kind: PolicyKind
) -> None:
    case = random_case(40, policy=kind)
    solution, features = case.solution(), far_features(case, bandwidths)
    nearest = nearest_sample(case, features)

    # At 100 bandwidths the next sample may still have a share; the values differ by no more than it.
    tolerance = 1e-2 if bandwidths < 1e6 else 1e-12
    torch.testing.assert_close(solution.value(features), solution.q[nearest], rtol=tolerance, atol=0)
    torch.testing.assert_close(solution.visitation(features), solution.mu[nearest], rtol=tolerance, atol=0)
    assert solution.unknown_at(features).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("prior_mass", [1e-9, 0.1, 10.0])
@pytest.mark.parametrize("bandwidths", [1e2, 1e6, 1e12])
@pytest.mark.parametrize("kind", ["mlp", "gaussian"])
def test_far_from_the_data_with_prior_mass_the_value_is_that_of_the_unknown(
    bandwidths: float, prior_mass: float, kind: PolicyKind
) -> None:
    case = random_case(41, policy=kind, prior_mass=prior_mass)
    solution, features = case.solution(), far_features(case, bandwidths)
    v = solution.equation.problem.unknown_value

    assert solution.value(features).tolist() == [v, v]
    assert solution.action_value(features, torch.zeros(2, 1).double()).tolist() == [v, v]
    assert solution.unknown_at(features).tolist() == [1.0, 1.0]
    # Visits are those of the nearest data, never a bare 0.
    assert bool((solution.visitation(features) > 0).all())
    if bandwidths >= 1e6:
        visits = solution.mu[nearest_sample(case, features)]
        torch.testing.assert_close(solution.visitation(features), visits, rtol=1e-12, atol=0)


def test_a_start_far_from_the_data_is_worth_the_unknown_and_says_so() -> None:
    case = random_case(42, prior_mass=1e-3)
    away = far_features(case)[:1]
    solution = replace(case, data=replace(case.data, initial_states=away)).solution()

    assert solution.expected_return == pytest.approx(solution.equation.problem.unknown_value)
    assert solution.unknown_mass == pytest.approx(1.0)
    assert solution.certificate.converged


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
def test_next_states_far_from_the_data_leave_it_at_once(prior_mass: float) -> None:
    case = random_case(43, prior_mass=prior_mass, starts=1)
    gone = replace(case, data=replace(case.data, next_states=case.data.next_states + 1e7))
    gone = replace(gone, data=replace(gone.data, initial_states=case.data.states[:1]))
    solution = gone.solution()

    if prior_mass > 0:
        v = solution.equation.problem.unknown_value
        torch.testing.assert_close(solution.q, case.data.rewards + 0.9 * v, rtol=1e-12, atol=0)
    # With β = 0 all of them see the one sample nearest to where they went.
    else:
        assert len(set(solution.equation.operator.to_dense().argmax(dim=1).tolist())) == 1
    assert bool(solution.q.isfinite().all())


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
def test_where_all_is_terminal_only_the_first_reward_counts(prior_mass: float) -> None:
    case = random_case(44, prior_mass=prior_mass, starts=2)
    ended = replace(case, data=replace(case.data, terminated=torch.ones(40, dtype=torch.bool))).solution()

    assert torch.equal(ended.q, case.data.rewards)
    assert torch.equal(ended.mu, ended.equation.initial_responsibilities)


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
def test_without_discount_a_value_is_the_reward(prior_mass: float) -> None:
    case = random_case(45, prior_mass=prior_mass, discount=0.0)
    solution = case.solution()
    assert torch.equal(solution.q, case.data.rewards)
    assert torch.equal(solution.mu, solution.equation.initial_responsibilities)


def test_one_sample_with_prior_mass_by_hand() -> None:
    case = random_case(46, rows=2, state_columns=1, policy="linear", prior_mass=0.25)
    one = replace(case, data=case.data.take(torch.tensor([0])), unknown_value=-5.0)
    solution = one.solution()

    s, a, s_next = (float(x[0, 0]) for x in (one.data.states, one.data.actions, one.data.next_states))
    gain = next(one.policy.parameters()).item()
    h_s, h_a = float(one.bandwidths.states), float(one.bandwidths.actions)
    kernel = math.exp(-0.5 * ((s_next - s) / h_s) ** 2 - 0.5 * ((gain * s_next - a) / h_a) ** 2)
    eps, m = kernel / (kernel + 0.25), 0.25 / (kernel + 0.25)
    by_hand = (float(one.data.rewards) + 0.9 * m * -5.0) / (1 - 0.9 * eps)
    assert solution.q.tolist() == pytest.approx([by_hand])


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
def test_a_sample_repeated_a_hundred_times_keeps_every_number_finite(prior_mass: float) -> None:
    case = random_case(47, prior_mass=prior_mass)
    repeated = replace(case, data=case.data.take(torch.zeros(100, dtype=torch.int64)))
    solution = repeated.solution()

    assert solution.q.tolist() == pytest.approx([float(solution.q[0])] * 100)
    if prior_mass == 0.0:  # r/(1 − γ), as for one sample
        assert solution.expected_return == pytest.approx(float(case.data.rewards[0]) / 0.1)


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
@pytest.mark.parametrize("integration", [None, MonteCarlo(num_samples=2)])
def test_where_every_density_underflows_the_answer_is_the_nearest_sample_or_the_unknown(
    prior_mass: float, integration: MonteCarlo | None
) -> None:
    case = with_bandwidth(random_case(48, prior_mass=prior_mass, integration=integration), 1e-8)
    solution = case.solution()
    start = case.data.schema.encode(case.data.starts)

    if prior_mass == 0.0:
        nearest = nearest_sample(case, start, solution.equation.at_starts.actions[0])
        assert solution.expected_return == pytest.approx(float(solution.q[nearest]))
        assert solution.unknown_mass == 0.0
    else:
        assert solution.expected_return == pytest.approx(solution.equation.problem.unknown_value)
        assert solution.unknown_mass == pytest.approx(1.0)


@pytest.mark.parametrize("prior_mass", PRIOR_MASSES)
def test_bandwidths_wider_than_the_data_average_all_samples(prior_mass: float) -> None:
    case = with_bandwidth(random_case(49, prior_mass=prior_mass), 1e8)
    solution = case.solution()

    # Every ψφ is 1 to 16 digits: ε = 1/(n + β), m = β/(n + β).
    m = prior_mass / (40 + prior_mass)
    v = solution.equation.problem.unknown_value
    mean = (float(case.data.rewards.mean()) + 0.9 * m * v) / (1 - 0.9 * (1 - m))
    assert solution.expected_return == pytest.approx((1 - m) * mean + m * v)


@pytest.mark.parametrize("discount", [1.0, 1.5, -0.1, math.nan, math.inf])
def test_a_discount_outside_its_range_is_refused(discount: float) -> None:
    with pytest.raises(ArgumentError, match=r"discount is .*; it must lie in \[0, 1\)"):
        random_case(50, discount=discount).problem()


def test_by_default_a_state_with_one_millionth_of_a_sample_around_it_is_half_unknown() -> None:
    # One row; at the distance √(2 log 10⁶) its kernel is 10⁻⁶, the default prior mass.
    data = Transitions.from_arrays([[0.0]], [[0.0]], [1.0], [[0.0]])
    config = PaperModel.Config(bandwidths=Bandwidths.from_values([1.0], [1.0]))
    problem = ControlProblem.from_data(data, model=config, discount=0.9)
    assert isinstance(problem, PaperProblem)
    far = torch.tensor([[0.0], [math.sqrt(2 * math.log(1e6))]], dtype=torch.float64)
    backup = problem.model.bind(far).backup(torch.zeros(1, 2, 1, dtype=torch.float64))
    assert backup.unknown.tolist() == pytest.approx([1e-6, 0.5], rel=1e-5)
