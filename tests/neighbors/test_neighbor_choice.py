"""Which search is taken."""

import sys
from typing import Literal

import pytest
import torch

from neighbors.clouds import cloud, recordings, uniform
from nopg.errors import ArgumentError, MissingExtraError
from nopg.neighbors import FaissIndex, _choice, neighbor_search
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._choice import growth_dimension
from nopg.neighbors._tree import NeighborTree


@pytest.mark.parametrize("columns", [1, 3, 6])
def test_few_columns_make_a_tree(columns: int) -> None:
    assert type(neighbor_search(uniform(5_000, columns, 0))) is NeighborTree


def test_many_columns_make_brute_force() -> None:
    assert type(neighbor_search(uniform(5_000, 17, 0))) is BruteForce


def test_many_columns_that_fill_few_dimensions_make_a_tree() -> None:
    rows = uniform(5_000, 3, 0) @ cloud(3, 17, 1)
    assert type(neighbor_search(rows)) is NeighborTree


def test_few_rows_make_a_tree() -> None:
    assert type(neighbor_search(uniform(500, 17, 0))) is NeighborTree
    assert type(neighbor_search(uniform(1, 17, 0))) is NeighborTree


def test_very_many_points_make_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_choice, "_LISTS_FROM", 5_000)
    assert type(neighbor_search(uniform(5_000, 17, 0))) is FaissIndex
    assert type(neighbor_search(uniform(5_000, 3, 0))) is NeighborTree


def test_very_many_points_are_searched_by_brute_force_where_faiss_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_choice, "_LISTS_FROM", 5_000)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert type(neighbor_search(uniform(5_000, 17, 0))) is BruteForce


@pytest.mark.parametrize(
    ("kind", "search"), [("tree", NeighborTree), ("brute", BruteForce), ("faiss", FaissIndex)]
)
def test_a_search_can_be_asked_for_by_name(kind: Literal["tree", "brute", "faiss"], search: type) -> None:
    assert type(neighbor_search(cloud(50, 2, 0), kind)) is search


def test_faiss_asked_for_by_name_and_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[faiss\]"):
        neighbor_search(cloud(50, 2, 0), "faiss")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"'hnsw'.*'brute'"):
        neighbor_search(cloud(50, 2, 0), "hnsw")  # type: ignore[arg-type]


@pytest.mark.parametrize("dimensions", [1, 2, 4, 8])
def test_the_growth_dimension_of_a_box_is_its_dimension(dimensions: int) -> None:
    # At the walls a point has fewer neighbours, which counts for more with every dimension.
    assert growth_dimension(BruteForce(uniform(20_000, dimensions, 0))) == pytest.approx(dimensions, rel=0.2)


def test_the_growth_dimension_does_not_depend_on_the_unit() -> None:
    rows = recordings(3_000, 10, 0)
    assert growth_dimension(BruteForce(1e3 * rows)) == pytest.approx(
        growth_dimension(BruteForce(rows)), rel=1e-9
    )


def test_copies_fill_no_dimension() -> None:
    assert growth_dimension(BruteForce(cloud(10, 5, 0).repeat(40, 1))) == 0.0
    assert growth_dimension(BruteForce(torch.ones(50, 3, dtype=torch.float64))) == 0.0
