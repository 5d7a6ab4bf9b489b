"""What only brute force has: products that round, and the checks that catch it."""

import pytest
import torch

from neighbors.clouds import all_distances, cloud, uniform
from nopg._seeding import generator
from nopg.neighbors import _brute_force, _distances
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._distances import ProductTable
from nopg.neighbors._tree import NeighborTree


def clusters(apart: float, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Points and queries in two clusters, small beside their distance from the mean."""
    side = apart * torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    points = torch.cat([spread * cloud(400, 6, seed) + side[seed] for seed in (0, 1)])
    return points, torch.cat([spread * cloud(20, 6, 2 + seed) + side[seed] for seed in (0, 1)])


def assert_like_the_definition(points: torch.Tensor, queries: torch.Tensor, k: int) -> None:
    expected, expected_indices = all_distances(queries, points).sort(dim=1)
    distances, indices = BruteForce(points).nearest(queries, k)
    assert torch.equal(indices.long(), expected_indices[:, :k])
    torch.testing.assert_close(distances, expected[:, :k], rtol=1e-13, atol=0)
    radii = 0.5 * (expected[:, k - 1] + expected[:, k])
    assert BruteForce(points).count_within(queries, radii).tolist() == len(queries) * [k]


@pytest.mark.parametrize("dimensions", [3, 8, 17])
def test_it_agrees_with_the_tree(dimensions: int) -> None:
    points, queries = uniform(20_011, dimensions, 0), uniform(200, dimensions, 1)
    distances, indices = BruteForce(points).nearest(queries, 33)
    expected, expected_indices = NeighborTree(points).nearest(queries, 33)
    assert torch.equal(indices, expected_indices)
    # A handful of roundings; a query may stand close to a point beside the size of both.
    torch.testing.assert_close(distances, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("apart", "spread"),
    [(1.0, 1.0), (1e3, 1.0), (1e5, 1.0), (1e9, 1.0), (1e3, 1e-6), (1e30, 1e20)],
)
def test_clusters_small_beside_their_distance_are_told_apart(apart: float, spread: float) -> None:
    assert_like_the_definition(*clusters(apart, spread), 9)


def test_products_in_float32_alone_would_mix_them_up() -> None:
    points, queries = clusters(1e5, 1.0)
    _, indices = BruteForce(points)._single.smallest(queries, 9)
    expected = all_distances(queries, points).topk(9, largest=False).indices
    assert not torch.equal(indices.sort(dim=1).values, expected.sort(dim=1).values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("apart", [0.0, 1e2, 1e4])
def test_the_bound_on_the_rounding_holds(dtype: torch.dtype, apart: float) -> None:
    points, queries = clusters(apart, 1.0)
    table = ProductTable.of(points, dtype)
    estimates, indices = table.smallest(queries, len(points))
    squares = all_distances(queries, points).square().gather(1, indices)
    assert bool(((estimates - squares).abs().amax(dim=1) <= table.error(queries, squares.amax(dim=1))).all())


def test_a_hundred_copies_of_each_point_are_ties_and_not_lost() -> None:
    points, queries = cloud(30, 12, 0).repeat(100, 1), cloud(20, 12, 1)
    expected = all_distances(queries, points).sort(dim=1).values[:, :33]
    distances, indices = BruteForce(points).nearest(queries, 33)
    torch.testing.assert_close(distances, expected, rtol=1e-13, atol=0)
    assert all(len(set(row)) == len(row) for row in indices.tolist())


def test_points_on_the_rim_are_within_to_the_last_bit() -> None:
    points, queries = cloud(5_000, 8, 0), cloud(60, 8, 1)
    search = BruteForce(points)
    distances, _ = search.nearest(queries, 20)
    assert search.count_within(queries, distances[:, -1]).tolist() == 60 * [20]
    assert search.count_within(queries, distances[:, -1] * (1 - 1e-15)).tolist() == 60 * [19]


@pytest.mark.parametrize(("queries_at_once", "points_at_once"), [(1, 32), (7, 64), (64, 1024)])
def test_the_size_of_a_block_does_not_show(
    monkeypatch: pytest.MonkeyPatch, queries_at_once: int, points_at_once: int
) -> None:
    search, queries = BruteForce(cloud(2_001, 9, 0)), cloud(64, 9, 1)
    radii = torch.full((64,), 3.0, dtype=torch.float64)
    whole, counts = search.nearest(queries, 9), search.count_within(queries, radii)
    for module in (_distances, _brute_force):
        monkeypatch.setattr(module, "QUERIES_AT_ONCE", queries_at_once)
    monkeypatch.setattr(_distances, "_POINTS_AT_ONCE", points_at_once)
    for part, one in zip(search.nearest(queries, 9), whole, strict=True):
        assert torch.equal(part, one)
    assert torch.equal(search.count_within(queries, radii), counts)


@pytest.mark.parametrize("count", [1, 3, 40, 200])
def test_the_smallest_of_a_row_lie_in_the_groups_with_the_smallest_minima(count: int) -> None:
    block = torch.rand(5, 3_200, generator=generator(0))
    values, columns = _distances._smallest_of(block, count)
    assert torch.equal(values.sort(dim=1).values, block.sort(dim=1).values[:, :count])
    assert torch.equal(block.gather(1, columns), values)
