"""The tree against brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.neighbors import NeighborTree, _tree


def cloud(count: int, dimensions: int, seed: int) -> torch.Tensor:
    return torch.randn(count, dimensions, dtype=torch.float64, generator=generator(seed, "cloud"))


def all_distances(queries: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """All distances (m, n), from the definition."""
    return (queries[:, None, :] - points[None, :, :]).square().sum(dim=-1).sqrt()


@settings(deadline=None)
@given(
    count=st.integers(1, 60),
    num_queries=st.integers(1, 30),
    dimensions=st.integers(1, 5),
    k=st.integers(1, 70),
    seed=st.integers(0, 10_000),
)
def test_the_nearest_are_those_of_brute_force(
    count: int, num_queries: int, dimensions: int, k: int, seed: int
) -> None:
    points, queries = cloud(count, dimensions, seed), cloud(num_queries, dimensions, seed + 1)
    expected, expected_indices = all_distances(queries, points).sort(dim=1)

    distances, indices = NeighborTree(points).nearest(queries, k)

    # A handful of roundings.
    torch.testing.assert_close(distances, expected[:, :k], rtol=1e-13, atol=0)
    assert torch.equal(indices.long(), expected_indices[:, :k])


@settings(deadline=None)
@given(count=st.integers(1, 40), k=st.integers(1, 40), seed=st.integers(0, 10_000))
def test_on_a_grid_full_of_ties_the_distances_are_right_and_no_point_comes_twice(
    count: int, k: int, seed: int
) -> None:
    points = torch.randint(3, (count, 2), generator=generator(seed)).double()
    queries = torch.randint(3, (10, 2), generator=generator(seed + 1)).double()

    distances, indices = NeighborTree(points).nearest(queries, k)

    table = all_distances(queries, points)
    torch.testing.assert_close(distances, table.sort(dim=1).values[:, :k], rtol=1e-13, atol=0)
    torch.testing.assert_close(distances, table.gather(1, indices.long()), rtol=1e-13, atol=0)
    assert all(len(set(row)) == len(row) for row in indices.tolist())


@settings(deadline=None)
@given(
    count=st.integers(1, 60),
    num_queries=st.integers(1, 30),
    dimensions=st.integers(1, 5),
    seed=st.integers(0, 10_000),
)
def test_counts_within_a_radius_are_those_of_brute_force(
    count: int, num_queries: int, dimensions: int, seed: int
) -> None:
    points, queries = cloud(count, dimensions, seed), cloud(num_queries, dimensions, seed + 1)
    radii = 4 * torch.rand(num_queries, dtype=torch.float64, generator=generator(seed, "radii"))
    expected = (all_distances(queries, points) <= radii[:, None]).sum(dim=1)
    assert torch.equal(NeighborTree(points).count_within(queries, radii), expected)


def test_a_point_on_the_rim_is_within() -> None:
    tree = NeighborTree(torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64))
    radii = torch.tensor([1.0, 0.0], dtype=torch.float64)
    queries = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert tree.count_within(queries, radii).tolist() == [3, 1]


def test_asking_for_more_than_there_are_gives_all() -> None:
    tree = NeighborTree(torch.tensor([[0.0], [5.0], [1.0]], dtype=torch.float64))
    distances, indices = tree.nearest(torch.tensor([[0.0], [6.0]], dtype=torch.float64), 10)
    assert distances.tolist() == [[0.0, 1.0, 5.0], [1.0, 5.0, 6.0]]
    assert indices.tolist() == [[0, 2, 1], [1, 2, 0]]
    assert tree.num_points == 3


def test_indices_are_int32_and_distances_float64() -> None:
    distances, indices = NeighborTree(cloud(5, 2, 0)).nearest(cloud(4, 2, 1), 1)
    assert distances.dtype == torch.float64
    assert indices.dtype == torch.int32
    assert distances.shape == indices.shape == (4, 1)


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_the_size_of_a_chunk_does_not_show(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    tree, queries = NeighborTree(cloud(200, 3, 0)), cloud(64, 3, 1)
    whole = tree.nearest(queries, 9)
    monkeypatch.setattr(_tree, "_QUERIES_AT_ONCE", at_once)
    for part, one in zip(tree.nearest(queries, 9), whole, strict=True):
        assert torch.equal(part, one)


def test_the_order_of_the_queries_does_not_show() -> None:
    tree, queries = NeighborTree(cloud(200, 3, 0)), cloud(300, 3, 1)
    order = torch.randperm(300, generator=generator(2))
    distances, indices = tree.nearest(queries, 5)
    shuffled_distances, shuffled_indices = tree.nearest(queries[order], 5)
    assert torch.equal(shuffled_distances, distances[order])
    assert torch.equal(shuffled_indices, indices[order])


def test_the_queries_are_not_changed() -> None:
    points, queries = cloud(20, 2, 0), cloud(20, 2, 1)
    before = points.clone(), queries.clone()
    NeighborTree(points).nearest(queries, 3)
    assert torch.equal(points, before[0])
    assert torch.equal(queries, before[1])


def test_no_query_has_no_neighbours() -> None:
    distances, indices = NeighborTree(cloud(5, 2, 0)).nearest(cloud(0, 2, 1), 3)
    assert distances.shape == indices.shape == (0, 3)
