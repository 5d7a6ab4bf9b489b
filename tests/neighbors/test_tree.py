"""What only the tree has: its chunks."""

import tracemalloc

import pytest
import torch

from neighbors.clouds import cloud
from nopg.errors import ArgumentError
from nopg.neighbors import _tree
from nopg.neighbors._tree import NeighborTree


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_the_size_of_a_chunk_does_not_show(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    tree, queries = NeighborTree(cloud(200, 3, 0)), cloud(64, 3, 1)
    whole = tree.nearest(queries, 9)
    monkeypatch.setattr(_tree, "_QUERIES_AT_ONCE", at_once)
    for part, one in zip(tree.nearest(queries, 9), whole, strict=True):
        assert torch.equal(part, one)


def test_besides_its_answer_a_call_holds_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    m, k, chunk = 40_000, 33, 1_000
    tree, queries = NeighborTree(cloud(1_000, 3, 0)), cloud(m, 3, 1)
    monkeypatch.setattr(_tree, "_QUERIES_AT_ONCE", chunk)
    tracemalloc.start()
    tree.nearest(queries, k)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # numpy's arrays are seen, torch's answer is not: distances, indices twice, and the order of the queries.
    assert peak < chunk * k * (8 + 8 + 4) + m * 3 * 8 + 1_000_000
    assert peak < m * k * 8 / 2


def test_points_beyond_what_numbers_hold_have_no_neighbours() -> None:
    far = torch.tensor([[0.0], [float("inf")]], dtype=torch.float64)
    with pytest.raises(ArgumentError, match="more bandwidths apart"):
        NeighborTree(far)
    with pytest.raises(ArgumentError, match="more bandwidths apart"):
        NeighborTree(far[:1]).nearest(far, 1)
