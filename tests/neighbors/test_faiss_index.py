"""An approximate index that checks itself, takes more lists, and falls back to exact search."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from neighbors.clouds import recordings, uniform
from nopg.errors import ArgumentError, MissingExtraError
from nopg.neighbors import FaissIndex, _faiss
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._faiss import lost_mass

NUM_POINTS, NUM_QUERIES, K = 40_000, 3_000, 16


@pytest.fixture(scope="module")
def points() -> torch.Tensor:
    return recordings(NUM_POINTS, 12, 0)


@pytest.fixture(scope="module")
def queries() -> torch.Tensor:
    return recordings(NUM_QUERIES, 12, 10)


@pytest.fixture(scope="module")
def exact(points: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    return BruteForce(points).nearest(queries, K)[0]


def test_one_list_per_query_loses_mass_and_the_check_records_it(
    points: torch.Tensor, queries: torch.Tensor, exact: torch.Tensor
) -> None:
    index = FaissIndex(points, num_probes=1, tolerance=1.0)
    distances, _ = index.nearest(queries, K)
    assert index.num_probes == 1
    assert index.num_checked == 1024
    assert index.largest_loss > 0.1
    assert float(lost_mass(distances, exact).max()) > 0.1


def test_one_list_per_query_is_caught_and_repaired(
    points: torch.Tensor, queries: torch.Tensor, exact: torch.Tensor
) -> None:
    index = FaissIndex(points, num_probes=1)
    distances, indices = index.nearest(queries, K)
    lost = lost_mass(distances, exact)
    assert index.num_checked == 1024
    assert index.largest_loss <= index.tolerance
    assert not index.is_exact
    assert 1 < index.num_probes <= index.num_lists // 8
    # With none of 1 024 checked rows above the tolerance, more than 1 in 100 above it has odds of 3 in 10⁵.
    assert float((lost > index.tolerance).double().mean()) < 0.01
    assert bool((distances.diff(dim=1) >= 0).all())
    torch.testing.assert_close(
        distances, (queries[:, None] - points[indices.long()]).norm(dim=2), rtol=1e-13, atol=0
    )


def test_each_step_of_the_repair_doubles_the_lists_and_the_next_call_starts_there(
    points: torch.Tensor, queries: torch.Tensor
) -> None:
    index = FaissIndex(points, num_probes=3)
    index.nearest(queries, K)
    reached = index.num_probes
    assert reached in {6, 12, 24, 48}
    index.nearest(queries, 1)
    assert index.num_probes == reached


def test_checked_rows_are_exact(points: torch.Tensor, queries: torch.Tensor, exact: torch.Tensor) -> None:
    index = FaissIndex(points, num_probes=1, tolerance=1.0)
    distances, _ = index.nearest(queries, K)
    rows = torch.linspace(0, NUM_QUERIES - 1, 1024).long()
    assert torch.equal(distances[rows], exact[rows])


def test_the_check_covers_all_calls(points: torch.Tensor, queries: torch.Tensor) -> None:
    index = FaissIndex(points, num_probes=1, tolerance=1.0)
    index.nearest(queries[:1_500], K)
    first, first_loss = index.num_checked, index.largest_loss
    index.nearest(queries[1_500:], K)
    assert (first, index.num_checked) == (1024, 2048)
    assert index.largest_loss >= first_loss > 0
    index.nearest(queries[:100], K)
    assert index.num_checked == 2048, "few queries are searched exactly and need no check"


def test_where_nothing_but_all_lists_would_do_the_search_is_exact() -> None:
    points, queries = 10 * uniform(NUM_POINTS, 17, 0), 10 * uniform(NUM_QUERIES, 17, 1)
    index = FaissIndex(points, num_probes=32)
    distances, indices = index.nearest(queries, K)
    assert index.is_exact
    expected, expected_indices = BruteForce(points).nearest(queries, K)
    assert torch.equal(indices, expected_indices)
    assert torch.equal(distances, expected)


def test_a_row_whose_lists_hold_too_few_points_is_answered_exactly(
    points: torch.Tensor, queries: torch.Tensor
) -> None:
    index = FaissIndex(points, num_probes=1, tolerance=1.0)
    some = queries[:50]
    distances, indices = index.probe(some, 2_000)
    expected, expected_indices = BruteForce(points).nearest(some, 2_000)
    assert torch.equal(indices, expected_indices)
    assert torch.equal(distances, expected)


def test_the_same_points_give_the_same_lists(points: torch.Tensor, queries: torch.Tensor) -> None:
    first, again = (FaissIndex(points, num_probes=2, tolerance=1.0).probe(queries, K) for _ in range(2))
    assert torch.equal(first[1], again[1])


def test_far_from_the_origin_nothing_changes(points: torch.Tensor, queries: torch.Tensor) -> None:
    index = FaissIndex(points + 1e6, num_probes=4)
    distances, _ = index.nearest(queries + 1e6, K)
    assert not index.is_exact
    # The shift itself rounds coordinates by 10⁶ u.
    expected, _ = BruteForce(points + 1e6).nearest(queries + 1e6, K)
    assert float(lost_mass(distances, expected).quantile(0.99)) < 1e-3


def test_faiss_uses_the_threads_of_torch_and_gives_them_back(
    monkeypatch: pytest.MonkeyPatch, points: torch.Tensor, queries: torch.Tensor
) -> None:
    index = FaissIndex(points)
    numbers: list[int] = []
    monkeypatch.setattr(
        index, "_faiss", SimpleNamespace(omp_get_max_threads=lambda: 7, omp_set_num_threads=numbers.append)
    )
    torch.set_num_threads(2)
    try:
        index.probe(queries, K)
    finally:
        torch.set_num_threads(1)
    assert numbers == [2, 7]


def test_a_search_leaves_the_threads_of_torch_alone(points: torch.Tensor, queries: torch.Tensor) -> None:
    # Loaded after torch, faiss shares its OpenMP: the one's number of threads is then the other's.
    torch.set_num_threads(2)
    try:
        FaissIndex(points).probe(queries, K)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_the_size_of_a_chunk_does_not_show(
    monkeypatch: pytest.MonkeyPatch, points: torch.Tensor, queries: torch.Tensor
) -> None:
    index = FaissIndex(points, num_probes=2)
    whole = index.probe(queries, K)
    monkeypatch.setattr(_faiss, "rows_at_once", lambda _: 700)
    for part, one in zip(index.probe(queries, K), whole, strict=True):
        assert torch.equal(part, one)


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="num_probes is 0"):
        FaissIndex(uniform(10, 2, 0), num_probes=0)
    with pytest.raises(ArgumentError, match="tolerance is nan"):
        FaissIndex(uniform(10, 2, 0), tolerance=float("nan"))


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"faiss-cpu.*pip install 'nopg\[faiss\]'"):
        FaissIndex(uniform(10, 2, 0))


def test_importing_the_package_does_not_import_faiss() -> None:
    script = "import sys, nopg, nopg.neighbors; print('faiss' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
