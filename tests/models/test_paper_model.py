import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.models import MonteCarlo, PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._integration import KernelMean
from reference.dense_reference import responsibilities
from reference.problem_cases import dense_agreement, random_case


def matrix(*rows: float) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[:, None]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def two_actions(*, prior_mass: float = 0.0, h: float = 1.0) -> PaperModel:
    """Return two samples at state 0, with actions 0 and 1."""
    data = Transitions.from_arrays([0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0])
    return PaperModel(data, Bandwidths.from_values([1.0], [h]), prior_mass=prior_mass)


def test_the_responsibilities_of_two_samples_by_hand() -> None:
    backup = two_actions().bind(matrix(0.3)).backup(matrix(2.0)[None])

    # Both states are equally near; log φ(2, 1) − log φ(2, 0) = 3/2.
    assert backup.weights.to_dense()[0].tolist() == pytest.approx([sigmoid(-1.5), sigmoid(1.5)])
    assert backup.unknown.tolist() == [0.0]
    assert backup.reward.tolist() == [0.0]


def test_prior_mass_takes_its_share_by_hand() -> None:
    backup = two_actions(prior_mass=0.5).bind(matrix(1.0)).backup(matrix(1.0)[None])

    kernel = [math.exp(-0.5) * math.exp(-0.5), math.exp(-0.5)]
    total = 0.5 + sum(kernel)
    assert backup.weights.to_dense()[0].tolist() == pytest.approx([k / total for k in kernel])
    assert backup.unknown.tolist() == pytest.approx([0.5 / total])
    # V = Σ ε x + m v.
    x = torch.tensor([3.0, 5.0], dtype=torch.float64)
    by_hand = (3 * kernel[0] + 5 * kernel[1] - 7 * 0.5) / total
    assert backup.values(x, -7.0).tolist() == pytest.approx([by_hand])


def test_several_actions_give_the_mean_of_the_ratios_not_the_ratio_of_the_means() -> None:
    actions = torch.tensor([[[0.0]], [[3.0]]], dtype=torch.float64)
    backup = two_actions().bind(matrix(0.0)).backup(actions)

    mean_of_ratios = 0.5 * (sigmoid(-0.5) + sigmoid(2.5))
    on_second = math.exp(-0.5) + math.exp(-2.0)
    ratio_of_means = on_second / (1.0 + math.exp(-4.5) + on_second)
    weight = float(backup.weights.to_dense()[0, 1])
    assert weight == pytest.approx(mean_of_ratios)
    assert abs(weight - ratio_of_means) > 0.1


@pytest.mark.parametrize("h", [1.0, 0.5])
def test_the_action_gradient_of_two_samples_by_hand(h: float) -> None:
    queries = two_actions(h=h).bind(matrix(0.0))
    actions = matrix(0.2)[None]
    x = torch.tensor([10.0, 14.0], dtype=torch.float64)
    gradient = queries.action_gradient(actions, queries.backup(actions), x, 0.0)

    # V(a) = 10 + 4 σ((a − ½)/h²), so V′ = 4 σ(1 − σ)/h²: the covariance of x and a, over h².
    share = sigmoid((0.2 - 0.5) / h**2)
    assert gradient.tolist() == [[[pytest.approx(4 * share * (1 - share) / h**2)]]]


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 30),
    prior_mass=st.sampled_from([0.0, 1e-12, 1e-2, 1.0, 1e3]),
    scales=st.tuples(st.floats(1e-3, 1e3), st.floats(0, 1e4)),
    num_candidates=st.one_of(st.none(), st.integers(1, 10)),
)
@settings(max_examples=200, deadline=None)
def test_weights_are_not_negative_and_rows_sum_to_one_minus_the_unknown_mass(
    seed: int, rows: int, prior_mass: float, scales: tuple[float, float], num_candidates: int | None
) -> None:
    h, distance = scales
    case = random_case(seed, rows=rows, action_columns=2, policy="linear")
    model = PaperModel(
        case.data,
        Bandwidths.from_values([h, h], [h, h]),
        prior_mass=prior_mass,
        search=CandidateSearch(num_candidates=num_candidates),
    )
    rng = np.random.default_rng(seed)
    features = torch.as_tensor(distance * rng.normal(size=(5, 2)))
    backup = model.bind(features).backup(torch.as_tensor(distance * rng.normal(size=(3, 5, 2))))

    assert bool((backup.weights.values >= 0).all())
    assert bool(((backup.unknown >= 0) & (backup.unknown <= 1)).all())
    # Sums of up to 30 weights and 3 samples.
    torch.testing.assert_close(backup.weights.sums(), 1 - backup.unknown, rtol=0, atol=1e-14)
    if prior_mass == 0.0:
        assert backup.unknown.tolist() == [0.0] * 5


@pytest.mark.parametrize("prior_mass", [0.0, 0.1])
@pytest.mark.parametrize("num_samples", [1, 3])
def test_the_action_gradient_agrees_with_finite_differences(prior_mass: float, num_samples: int) -> None:
    case = random_case(20, action_columns=2, prior_mass=prior_mass, search=CandidateSearch(num_candidates=9))
    model = case.problem().model
    rng = np.random.default_rng(0)
    actions = torch.as_tensor(rng.normal(size=(num_samples, len(case.data), 2)))
    x, v = torch.as_tensor(rng.normal(size=len(case.data))), -3.0
    queries = model.node_queries
    gradient = queries.action_gradient(actions, queries.backup(actions), x, v)

    step = 1e-5
    for sample in range(num_samples):
        for k in range(2):
            up, down = actions.clone(), actions.clone()
            up[sample, :, k] += step
            down[sample, :, k] -= step
            rise = queries.backup(up).values(x, v) - queries.backup(down).values(x, v)
            # Central differences: V‴ step²/6 ~ 10⁻⁹ for bandwidths of .7, rounding 10⁻¹⁶/step ~ 10⁻¹¹.
            torch.testing.assert_close(gradient[sample, :, k], rise / (2 * step), rtol=0, atol=1e-8)


def test_responsibilities_equal_those_of_the_dense_reference_at_any_state() -> None:
    case = random_case(21, rows=30, state_columns=3, action_columns=2, prior_mass=0.3)
    case = replace(case, search=CandidateSearch(num_candidates=30))
    rng = np.random.default_rng(0)
    features, actions = rng.normal(size=(10, 3)), rng.normal(size=(10, 2))
    backup = case.problem().model.bind(torch.as_tensor(features)).backup(torch.as_tensor(actions)[None])

    dense = backup.weights.to_dense()
    for row in range(10):
        eps, m = responsibilities(case.dense_problem(), features[row], actions[row])
        # A dozen roundings of exponents of order 10.
        assert dense[row].numpy() == pytest.approx(eps, rel=1e-12, abs=1e-15)
        assert float(backup.unknown[row]) == pytest.approx(m, rel=1e-12)


def test_with_all_samples_as_candidates_the_equation_is_that_of_the_dense_reference() -> None:
    differences = dense_agreement()
    assert set(differences) == {"P", "b", "m", "eps_0", "q", "mu", "J", "U"}
    # Rounding times the condition of Λ, at most 2/(1 − .97).
    assert max(differences.values()) <= 1e-10


def test_candidates_of_the_default_search_give_almost_the_dense_answer() -> None:
    case = random_case(22, rows=60)
    case = replace(case, bandwidths=Bandwidths.from_values([0.3, 0.3], [0.7]))
    solution = case.solution()
    dense = case.dense_solution(solution)
    assert solution.equation.node_backup.weights.pattern.row_length < 60

    assert solution.certificate.cut_error > 0
    assert abs(solution.expected_return - dense.J) <= solution.certificate.return_error


@pytest.mark.parametrize(
    ("rewards", "terminated", "value"),
    [
        ([1.0, 3.0], [False, False], 10.0),
        ([-1.0, 3.0], [False, False], -10.0),
        ([1.0, 3.0], [False, True], 1.0),
        ([-1.0, 3.0], [False, True], -10.0),
    ],
)
def test_the_unknown_is_worth_the_worst_reward_for_ever_or_once_where_the_task_can_end(
    rewards: list[float], terminated: list[bool], value: float
) -> None:
    data = Transitions.from_arrays([0.0, 0.0], [0.0, 1.0], rewards, [0.0, 0.0], terminated=terminated)
    model = PaperModel(data, Bandwidths.from_values([1.0], [1.0]))
    assert model.default_unknown_value(0.9) == pytest.approx(value)


def test_a_terminal_node_does_not_continue_and_a_truncated_one_does() -> None:
    data = Transitions.from_arrays(
        [0.0, 0.0, 0.0],
        [0.0, 1.0, 2.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        terminated=[False, True, False],
        truncated=[False, False, True],
    )
    assert PaperModel(data, Bandwidths.from_values([1.0], [1.0])).continues.tolist() == [1.0, 0.0, 1.0]


def test_next_states_are_drawn_from_their_kernel_in_the_units_of_their_columns() -> None:
    n, g = 400, 50
    data = Transitions.from_arrays(
        torch.zeros(n, 2),
        torch.zeros(n, 1),
        torch.zeros(n),
        torch.tensor([[90.0, 5.0]]).expand(n, 2),
        angles={"s0": 360.0},
    )
    drawn = []

    class Recorder(MonteCarlo):
        def points(self, next_states: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
            drawn.append(super().points(next_states, spread))
            return drawn[-1]

    bandwidths = Bandwidths.from_values([1.0, 1.0, 1.0], [1.0], [0.1, 0.1, 3.0])
    PaperModel(data, bandwidths, integration=Recorder(g, seed=3), search=CandidateSearch(num_candidates=1))

    # A radian of bandwidth is 360/2π degrees; 20 000 draws know a mean to σ/141 and σ to 1/200.
    points, sigma = drawn[0], torch.tensor([0.1 * 360 / (2 * math.pi), 3.0], dtype=torch.float64)
    assert points.shape == (n * g, 2)
    assert ((points.mean(dim=0) - torch.tensor([90.0, 5.0])) / sigma).abs().max() < 4 / 141
    assert (points.std(dim=0) / sigma).tolist() == pytest.approx([1.0, 1.0], rel=4 / 200)


def test_draws_of_next_states_depend_on_the_seed_alone() -> None:
    s, h = torch.zeros(4, 2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    assert torch.equal(MonteCarlo(3, seed=1).points(s, h), MonteCarlo(3, seed=1).points(s, h))
    assert not torch.equal(MonteCarlo(3, seed=1).points(s, h), MonteCarlo(3, seed=2).points(s, h))
    assert torch.equal(KernelMean().points(s, h), s)


def test_no_draw_of_a_next_state_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_samples is 0; draw at least 1"):
        MonteCarlo(0)


@pytest.mark.parametrize("prior_mass", [-1.0, math.nan, math.inf])
def test_a_prior_mass_that_is_no_mass_is_refused(prior_mass: float) -> None:
    with pytest.raises(ArgumentError, match=r"prior_mass is .*; give 0 \(the paper\) or a positive number"):
        two_actions(prior_mass=prior_mass)


@pytest.mark.parametrize(
    ("bandwidths", "message"),
    [
        (([1.0, 1.0], [1.0]), r"bandwidths.states has 2 numbers, the data have 1 columns there: \['s0'\]"),
        (([1.0], [1.0, 1.0]), r"bandwidths.actions has 2 numbers, the data have 1 columns"),
        (([1.0], [1.0], [1.0, 1.0]), r"bandwidths.next_states has 2 numbers"),
    ],
)
def test_bandwidths_of_another_size_than_the_data_are_refused(
    bandwidths: tuple[list[float], ...], message: str
) -> None:
    data = Transitions.from_arrays([0.0], [0.0], [0.0], [0.0])
    with pytest.raises(ArgumentError, match=message):
        PaperModel(data, Bandwidths.from_values(*bandwidths))


def test_an_action_bandwidth_too_narrow_for_numbers_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the actions lie over 1e150 bandwidths apart"):
        two_actions(h=1e-160)


@pytest.mark.parametrize("action", [math.nan, math.inf, 1e308])
@pytest.mark.parametrize("prior_mass", [0.0, 0.1])
def test_an_action_that_is_no_number_is_refused(action: float, prior_mass: float) -> None:
    queries = two_actions(prior_mass=prior_mass, h=1e-3).bind(matrix(0.0, 0.0))
    with pytest.raises(ArgumentError, match="1 of 2 actions are NaN, infinite or over 1e150 bandwidths"):
        queries.backup(matrix(0.0, action)[None])
