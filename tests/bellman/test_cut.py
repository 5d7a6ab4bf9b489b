"""What the samples that are no candidates would change, against the equation of all samples."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.bellman import PaperProblem, solution_gradient
from nopg.bellman._solution import BellmanSolution
from nopg.data import Schema, Transitions
from nopg.kernels import Bandwidths
from nopg.models import MonteCarlo, PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._paper_queries import PaperBackup
from nopg.neighbors import neighbor_search
from nopg.policies import LinearPolicy
from reference.problem_cases import Case, PolicyKind, random_case
from studies.cut import RandomSet, compare
from studies.cut_gradient import gradient_error_bound


def narrow(
    seed: int,
    *,
    policy: PolicyKind = "linear",
    prior_mass: float = 0.0,
    integration: MonteCarlo | None = None,
) -> Case:
    """Return a case whose policy acts where few samples are, with narrow action bandwidths."""
    case = random_case(seed, rows=200, policy=policy, prior_mass=prior_mass, integration=integration)
    return replace(case, bandwidths=Bandwidths.from_values([0.3, 0.3], [0.1] * case.policy.num_actions))


def with_all(case: Case) -> Case:
    return replace(case, search=CandidateSearch(num_candidates=len(case.data)))


def lost_weights(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the share (m,) of the weights that the rows of P lose in truth, and its bound."""
    cut, whole = case.solution().equation, with_all(case).solution().equation
    kept, full = cut.node_backup.weights.to_dense() > 0, whole.node_backup.weights.to_dense()
    return torch.where(kept, 0.0, full).sum(dim=1), cut.node_backup.lost


def flat(solution: BellmanSolution) -> torch.Tensor:
    return torch.cat([part.flatten() for part in solution_gradient(solution)])


@pytest.mark.parametrize("policy", ["linear", "gaussian"])
@pytest.mark.parametrize(
    "search", [CandidateSearch(), CandidateSearch(num_candidates=20), CandidateSearch(num_kept=5)]
)
@pytest.mark.parametrize("prior_mass", [0.0, 1e-3])
def test_no_row_loses_more_of_its_weights_than_its_bound_says(
    policy: PolicyKind, search: CandidateSearch, prior_mass: float
) -> None:
    true, bound = lost_weights(replace(narrow(3, policy=policy, prior_mass=prior_mass), search=search))
    assert float(true.max()) > 0
    # The weights of both equations sum to 1 up to rounding of 200 terms.
    assert bool((true <= bound + 1e-13).all())


def test_rows_that_would_lose_a_thousandth_are_searched_again_and_no_others() -> None:
    case = narrow(3)
    queries = case.problem().model.node_queries
    actions = case.solution().equation.at_nodes.actions
    _, before = queries.candidates.shares(
        queries.model.scale_actions(actions[0]), out=torch.empty_like(queries.candidates.log_psi)
    )
    backup = queries.backup(actions)
    assert backup.where.tolist() == (before > 1e-3).nonzero()[:, 0].tolist() != []
    assert float(backup.lost[backup.where].max()) <= 1e-5
    rest = torch.ones(len(before), dtype=torch.bool).index_fill(0, backup.where, False)
    assert torch.equal(backup.lost[rest], before[rest])


def test_candidates_set_by_hand_are_not_searched_again() -> None:
    case = replace(narrow(3), search=CandidateSearch(num_candidates=20))
    backup = case.solution().equation.node_backup
    assert isinstance(backup, PaperBackup)
    assert len(backup.where) == 0
    assert float(backup.lost.max()) > 0.5


@pytest.mark.parametrize("policy", ["linear", "gaussian"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("integration", [None, MonteCarlo(num_samples=2)])
def test_return_and_gradient_stay_within_their_bounds(
    policy: PolicyKind, weighted: bool, integration: MonteCarlo | None
) -> None:
    case = narrow(5, policy=policy, integration=integration)
    if weighted:
        weights = 1.0 + 9.0 * torch.rand(len(case.data), generator=generator(0), dtype=torch.float64)
        case = replace(case, data=replace(case.data, weights=weights))
    for search in (CandidateSearch(), CandidateSearch(num_candidates=150), CandidateSearch(num_kept=30)):
        cut, whole = replace(case, search=search).solution(), with_all(case).solution()
        error = abs(cut.expected_return - whole.expected_return)
        assert 0 < error <= cut.certificate.return_error
        assert float((flat(cut) - flat(whole)).norm()) <= gradient_error_bound(cut)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_the_bounds_hold_on_random_sets_with_narrow_bandwidths(seed: int) -> None:
    found = compare(seed)
    assert found.return_error <= found.return_bound
    # Both gradients are rounded, which counts where nothing is cut.
    assert found.gradient_error <= found.gradient_bound + 1e-9 * found.gradient_norm


def test_a_return_cannot_be_off_by_more_than_its_range() -> None:
    drawn = RandomSet.draw(0)
    model = PaperModel(drawn.data, drawn.bandwidths, search=CandidateSearch(num_candidates=1))
    solution = PaperProblem.build(model, drawn.data.starts, discount=0.99).solve(drawn.policy)
    worst, best = float(drawn.data.rewards.min()), float(drawn.data.rewards.max())
    assert math.isinf(solution.cut.lost)
    assert solution.certificate.cut_error == pytest.approx(max(best, 100 * best) - 100 * worst)


def test_the_bound_by_hand() -> None:
    # Two samples at one state, whose actions are 0 and 3 bandwidths off the policy's; one of them is kept.
    ends = torch.zeros(2, dtype=torch.bool)
    data = Transitions(
        torch.zeros(2, 1, dtype=torch.float64),
        torch.tensor([[0.0], [3.0]], dtype=torch.float64),
        torch.tensor([1.0, -1.0], dtype=torch.float64),
        torch.tensor([[0.0], [1.0]], dtype=torch.float64),
        ends,
        ends,
        Schema(("s",), ("a",)),
    )
    model = PaperModel(data, Bandwidths.from_values([1.0], [1.0]), search=CandidateSearch(num_kept=1))
    policy = LinearPolicy(torch.zeros(1, 1, dtype=torch.float64))
    problem = PaperProblem.build(model, torch.zeros(1, 1, dtype=torch.float64), discount=0.5)
    solution = problem.solve(policy)
    share = math.exp(-4.5) / (1 + math.exp(-4.5))
    assert solution.equation.node_backup.lost.tolist() == pytest.approx([share, share])
    assert solution.equation.initial_backup.lost.tolist() == [0.0]
    # q = (2, 0); δ₀ = 0, x = δ/2, max d = δ, μ sums to 2: ε₀ᵀΔ ≤ δ/(1 − δ), spread 2.
    assert solution.q.tolist() == pytest.approx([2.0, 0.0])
    assert solution.certificate.cut_error == pytest.approx(2 * share / (1 - share))


def test_the_papers_truncation_keeps_the_largest_products_of_both_kernels_and_all_of_the_start() -> None:
    case = replace(narrow(7, policy="linear"), search=CandidateSearch(num_kept=5))
    equation, whole = case.solution().equation, with_all(case).solution().equation
    rows, full = equation.node_backup.weights.to_dense(), whole.node_backup.weights.to_dense()
    assert ((rows > 0).sum(dim=1) <= 5).all()
    for row, all_of_it in zip(rows, full, strict=True):
        largest = all_of_it.topk(5).indices
        assert torch.allclose(row[largest], all_of_it[largest] / all_of_it[largest].sum(), atol=1e-12)
    torch.testing.assert_close(equation.initial_responsibilities, whole.initial_responsibilities)


def test_rows_that_are_searched_again_stay_within_their_memory_and_their_bound_says_so() -> None:
    rng = generator(0, "points")
    points = torch.randn(500, 2, generator=rng, dtype=torch.float64)
    queries = torch.randn(1, 40, 2, generator=rng, dtype=torch.float64)
    products = torch.exp(-0.5 * torch.cdist(queries[0], points).square())
    for most, expected in ((0, 8), (40 * 30, 30)):
        graph = CandidateSearch().find_for_actions(neighbor_search(points), queries, most_entries=most)
        assert graph.indices.shape == (40, expected)
        kept = torch.zeros_like(products).scatter_(1, graph.indices.long(), 1.0)
        assert bool(((1 - kept) * products).sum(dim=1).log().le(graph.log_dropped[0]).all())
