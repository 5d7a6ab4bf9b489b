import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.models._candidates import CandidateGraph, CandidateSearch
from nopg.neighbors import neighbor_search


def find(
    samples: torch.Tensor, queries: torch.Tensor, *, search: CandidateSearch | None = None, h: float = 1.0
) -> CandidateGraph:
    kernel = GaussianKernel(torch.full((samples.shape[1],), h, dtype=torch.float64))
    return (search or CandidateSearch()).find(neighbor_search(kernel.scale(samples)), kernel, queries)


def line(*places: float) -> torch.Tensor:
    return torch.tensor(places, dtype=torch.float64)[:, None]


def psi(samples: torch.Tensor, queries: torch.Tensor, h: float = 1.0) -> torch.Tensor:
    """Return all ψ, shape (m, n)."""
    return (-0.5 * ((queries[:, None] - samples) / h).square().sum(dim=-1)).exp()


def kept(graph: CandidateGraph) -> list[set[int]]:
    """Return the samples that each row keeps, without its padding."""
    return [
        set(indices[log_psi.isfinite()].tolist())
        for indices, log_psi in zip(graph.indices, graph.log_psi, strict=True)
    ]


def clouds(seed: int, *, rows: int, columns: int, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = generator(seed, "clouds")
    samples = torch.randn(rows, columns, generator=rng, dtype=torch.float64)
    return samples, 2 * torch.randn(queries, columns, generator=rng, dtype=torch.float64)


def test_the_two_nearest_of_three_samples_are_kept_and_the_third_is_bounded() -> None:
    graph = find(line(0.0, 3.0, 1.0), line(0.9), search=CandidateSearch(num_candidates=2))

    assert graph.indices.tolist() == [[0, 2]]
    assert graph.indices.dtype == torch.int32
    assert graph.log_psi[0].tolist() == pytest.approx([-0.405, -0.005])
    by_hand = math.exp(-0.5 * 2.1**2) / (math.exp(-0.405) + math.exp(-0.005))
    assert graph.dropped.tolist() == pytest.approx([by_hand])


def test_the_bandwidth_is_the_unit_of_distance() -> None:
    graph = find(line(0.0, 4.0), line(2.0), h=2.0)
    assert graph.log_psi[0].tolist() == pytest.approx([-0.5, -0.5])


def test_a_graph_of_all_samples_drops_nothing() -> None:
    samples, queries = clouds(0, rows=12, columns=2, queries=5)
    graph = find(samples, queries, search=CandidateSearch(num_candidates=12))

    assert graph.dropped.tolist() == [0.0] * 5
    assert kept(graph) == [set(range(12))] * 5


def test_short_rows_are_padded_with_their_nearest_sample_at_no_weight() -> None:
    # Ten samples at 0 and one at 100: the row of the query at 100 needs one candidate, the other ten.
    samples = line(*[0.0] * 10, 100.0)
    graph = find(samples, line(0.0, 100.0))

    assert kept(graph) == [set(range(10)), {10}]
    assert graph.indices[1].tolist() == [10] * 10
    assert graph.log_psi[1].isfinite().sum() == 1


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 60),
    columns=st.integers(1, 3),
    h=st.floats(0.05, 20.0),
)
@settings(max_examples=100, deadline=None)
def test_a_row_keeps_just_the_samples_above_a_hundred_thousandth_of_its_largest_psi(
    seed: int, rows: int, columns: int, h: float
) -> None:
    samples, queries = clouds(seed, rows=rows, columns=columns, queries=7)
    graph = find(samples, queries, h=h)

    log_psi = -0.5 * ((queries[:, None] - samples) / h).square().sum(dim=-1)
    share = log_psi - log_psi.amax(dim=1, keepdim=True)
    for row, found in enumerate(kept(graph)):
        # On the edge itself rounding decides; log ψ is at most 10⁵ here, known to 10⁻¹⁰.
        surely = set((share[row] > math.log(1e-5) + 1e-9).nonzero()[:, 0].tolist())
        possibly = set((share[row] > math.log(1e-5) - 1e-9).nonzero()[:, 0].tolist())
        assert surely <= found <= possibly
    assert bool((graph.indices.diff(dim=1) >= 0).all())


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 60),
    columns=st.integers(1, 3),
    num_candidates=st.one_of(st.none(), st.integers(1, 30)),
    lattice=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_no_row_drops_more_mass_than_its_bound_says(
    seed: int, rows: int, columns: int, num_candidates: int | None, lattice: bool
) -> None:
    samples, queries = clouds(seed, rows=rows, columns=columns, queries=7)
    if lattice:  # many samples at equal distances, some at the same place
        samples, queries = samples.round(), queries.round()
    graph = find(samples, queries, search=CandidateSearch(num_candidates=num_candidates), h=0.7)

    everything = psi(samples, queries, h=0.7)
    for row, found in enumerate(kept(graph)):
        inside = float(everything[row, sorted(found)].sum())
        outside = float(everything[row, sorted(set(range(rows)) - found)].sum())
        # Exponents of up to 100 are known to 10⁻¹⁴, and the two sums add up to 60 terms.
        assert outside <= inside * float(graph.dropped[row]) * (1 + 1e-12)


def test_the_bound_is_attained_where_all_dropped_samples_are_equally_far() -> None:
    graph = find(line(0.0, 2.0, 2.0, 2.0), line(0.0), search=CandidateSearch(num_candidates=2))
    assert kept(graph) == [{0}]
    assert graph.dropped.tolist() == pytest.approx([3 * math.exp(-2.0)], rel=1e-14)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 3, 1, 4]])
@pytest.mark.parametrize(("num_candidates", "distances"), [(2, [0]), (3, [-1, 0, 1]), (4, [-1, 0, 1])])
def test_equally_near_samples_are_kept_or_left_out_together(
    order: list[int], num_candidates: int, distances: list[int]
) -> None:
    samples = line(-2.0, -1.0, 0.0, 1.0, 2.0)[order]
    graph = find(samples, line(0.0), search=CandidateSearch(num_candidates=num_candidates))
    assert sorted(samples[sorted(kept(graph)[0]), 0].tolist()) == distances


def test_ties_that_would_empty_half_of_the_row_are_kept() -> None:
    graph = find(line(-1.0, 1.0), line(0.0), search=CandidateSearch(num_candidates=1))
    assert len(kept(graph)[0]) == 1


def test_one_crowded_corner_does_not_set_the_length_of_all_of_many_rows() -> None:
    # 100 samples at one place, the others in twenties ten bandwidths apart: 2 % of the rows need 100.
    twenties = 10.0 * torch.arange(1, 251).repeat_interleave(20)[:, None]
    samples = torch.cat([torch.zeros(100, 1, dtype=torch.float64), twenties])

    # Over 5 000 queries K is 2.2 times what 95 % of them need; up to there the longest row rules.
    assert find(samples, samples).num_candidates == 44
    assert find(samples, samples[:5_000]).num_candidates == 100


def test_the_length_of_the_rows_can_be_capped() -> None:
    samples, queries = clouds(1, rows=50, columns=1, queries=30)
    assert find(samples, queries, h=10.0).num_candidates == 50
    capped = find(samples, queries, search=CandidateSearch(most_candidates=12), h=10.0)
    assert capped.num_candidates == 12
    assert float(capped.dropped.min()) > 0


def test_fewer_than_one_candidate_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_candidates is 0; give at least 1"):
        CandidateSearch(num_candidates=0)
    with pytest.raises(ArgumentError, match="most_candidates is 0; give at least 1"):
        CandidateSearch(most_candidates=0)


@pytest.mark.parametrize("place", [math.nan, math.inf, 1e200])
def test_a_query_that_is_no_place_is_refused_by_its_row(place: float) -> None:
    with pytest.raises(ArgumentError, match=r"1 of 3 query states are .* \(first: row 1\)"):
        find(line(0.0, 1.0), line(0.0, place, 1.0))


def test_no_queries_at_all_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no query states"):
        find(line(0.0, 1.0), torch.zeros(0, 1, dtype=torch.float64))


def test_a_graph_says_how_large_it_is_and_what_it_dropped() -> None:
    graph = find(line(0.0, 2.0, 2.0, 2.0), line(0.0), search=CandidateSearch(num_candidates=2))
    assert repr(graph) == "CandidateGraph(1 queries × 2 of 4 samples, dropped mass ≤ 4.1e-01)"
