"""Every search against the definition."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neighbors.clouds import all_distances, cloud
from nopg._seeding import generator
from nopg.neighbors import FaissIndex, NeighborSearch
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._tree import NeighborTree

Search = Callable[[torch.Tensor], NeighborSearch]
every_search = pytest.mark.parametrize("search", [NeighborTree, BruteForce, FaissIndex])


@every_search
@settings(deadline=None)
@given(
    count=st.integers(1, 60),
    asked=st.tuples(st.integers(0, 30), st.integers(1, 70)),
    dimensions=st.integers(1, 5),
    seed=st.integers(0, 10_000),
)
def test_the_nearest_are_those_of_the_definition(
    search: Search, count: int, asked: tuple[int, int], dimensions: int, seed: int
) -> None:
    num_queries, k = asked
    points, queries = cloud(count, dimensions, seed), cloud(num_queries, dimensions, seed + 1)
    expected, expected_indices = all_distances(queries, points).sort(dim=1)

    distances, indices = search(points).nearest(queries, k)

    # A handful of roundings.
    torch.testing.assert_close(distances, expected[:, :k], rtol=1e-13, atol=0)
    assert torch.equal(indices.long(), expected_indices[:, :k])


@every_search
@settings(deadline=None)
@given(count=st.integers(1, 40), k=st.integers(1, 40), seed=st.integers(0, 10_000))
def test_on_a_grid_full_of_ties_the_distances_are_right_and_no_point_comes_twice(
    search: Search, count: int, k: int, seed: int
) -> None:
    points = torch.randint(3, (count, 2), generator=generator(seed)).double()
    queries = torch.randint(3, (10, 2), generator=generator(seed + 1)).double()

    distances, indices = search(points).nearest(queries, k)

    table = all_distances(queries, points)
    torch.testing.assert_close(distances, table.sort(dim=1).values[:, :k], rtol=1e-13, atol=0)
    torch.testing.assert_close(distances, table.gather(1, indices.long()), rtol=1e-13, atol=0)
    assert all(len(set(row)) == len(row) for row in indices.tolist())


@every_search
@settings(deadline=None)
@given(
    count=st.integers(1, 60),
    num_queries=st.integers(0, 30),
    dimensions=st.integers(1, 5),
    seed=st.integers(0, 10_000),
)
def test_counts_within_a_radius_are_those_of_the_definition(
    search: Search, count: int, num_queries: int, dimensions: int, seed: int
) -> None:
    points, queries = cloud(count, dimensions, seed), cloud(num_queries, dimensions, seed + 1)
    radii = 4 * torch.rand(num_queries, dtype=torch.float64, generator=generator(seed, "radii"))
    expected = (all_distances(queries, points) <= radii[:, None]).sum(dim=1)
    assert torch.equal(search(points).count_within(queries, radii), expected)


@every_search
def test_a_point_on_the_rim_is_within(search: Search) -> None:
    points = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    radii = torch.tensor([1.0, 0.0], dtype=torch.float64)
    queries = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert search(points).count_within(queries, radii).tolist() == [3, 1]


@every_search
def test_asking_for_more_than_there_are_gives_all(search: Search) -> None:
    among = search(torch.tensor([[0.0], [5.0], [1.0]], dtype=torch.float64))
    distances, indices = among.nearest(torch.tensor([[0.0], [6.0]], dtype=torch.float64), 10)
    assert distances.tolist() == [[0.0, 1.0, 5.0], [1.0, 5.0, 6.0]]
    assert indices.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert among.num_points == 3


@every_search
def test_indices_are_int32_distances_float64_and_counts_int64(search: Search) -> None:
    among = search(cloud(5, 2, 0))
    distances, indices = among.nearest(cloud(4, 2, 1), 1)
    assert distances.dtype == torch.float64
    assert indices.dtype == torch.int32
    assert distances.shape == indices.shape == (4, 1)
    assert among.count_within(cloud(4, 2, 1), distances[:, 0]).dtype == torch.int64


@every_search
@pytest.mark.parametrize("k", [1, 3, 9])
def test_no_query_has_no_neighbours(search: Search, k: int) -> None:
    among, none = search(cloud(5, 2, 0)), cloud(0, 2, 1)
    distances, indices = among.nearest(none, k)
    assert distances.shape == indices.shape == (0, min(k, 5))
    assert (distances.dtype, indices.dtype) == (torch.float64, torch.int32)
    assert among.count_within(none, torch.zeros(0, dtype=torch.float64)).tolist() == []


@every_search
def test_the_order_of_the_queries_does_not_show(search: Search) -> None:
    among, queries = search(cloud(200, 3, 0)), cloud(300, 3, 1)
    order = torch.randperm(300, generator=generator(2))
    distances, indices = among.nearest(queries, 5)
    shuffled_distances, shuffled_indices = among.nearest(queries[order], 5)
    assert torch.equal(shuffled_distances, distances[order])
    assert torch.equal(shuffled_indices, indices[order])


@every_search
def test_points_and_queries_are_not_changed(search: Search) -> None:
    points, queries = cloud(20, 2, 0), cloud(20, 2, 1)
    before = points.clone(), queries.clone()
    distances, _ = search(points).nearest(queries, 3)
    search(points).count_within(queries, distances[:, 0])
    assert torch.equal(points, before[0])
    assert torch.equal(queries, before[1])


@every_search
@pytest.mark.parametrize("dimensions", [3, 8, 17])
def test_in_any_dimension_the_nearest_are_those_of_the_definition(search: Search, dimensions: int) -> None:
    points, queries = cloud(4_000, dimensions, 0), cloud(50, dimensions, 1)
    expected, expected_indices = all_distances(queries, points).sort(dim=1)
    distances, indices = search(points).nearest(queries, 33)
    torch.testing.assert_close(distances, expected[:, :33], rtol=1e-13, atol=0)
    assert torch.equal(indices.long(), expected_indices[:, :33])
