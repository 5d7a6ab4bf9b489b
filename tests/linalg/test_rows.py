import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.linalg._operator import TransitionOperator
from nopg.linalg._rows import RowPattern, SparseRows

# Sums of at most 40 products of numbers of order 1: 40 · 10⁻¹⁶ and room.
TOLERANCE = 1e-13


def sparse(seed: int, rows: int, columns: int, length: int) -> tuple[SparseRows, torch.Tensor]:
    """Return random rows of different lengths, padded with zeros, and the same matrix entry by entry."""
    rng = np.random.default_rng(seed)
    length = min(length, columns)
    indices = np.sort(rng.permuted(np.tile(np.arange(columns), (rows, 1)), axis=1)[:, :length], axis=1)
    present = rng.random((rows, length)) < rng.choice([0.5, 1.0])
    values = rng.random((rows, length)) * present
    dense = np.zeros((rows, columns))
    for i in range(rows):
        for k in range(length):
            dense[i, indices[i, k]] += values[i, k]
    pattern = RowPattern(torch.as_tensor(indices.astype(np.int32)), columns, torch.as_tensor(present))
    return SparseRows(pattern, torch.as_tensor(values)), torch.as_tensor(dense)


def vectors(seed: int, size: int, columns: int | None) -> torch.Tensor:
    shape = (size,) if columns is None else (size, columns)
    return torch.as_tensor(np.random.default_rng(seed + 1).normal(size=shape))


def test_a_matrix_by_hand() -> None:
    pattern = RowPattern(torch.tensor([[0, 2], [0, 1]], dtype=torch.int32), 3)
    rows = SparseRows(pattern, torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))

    assert rows.to_dense().tolist() == [[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]]
    assert rows.apply(torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)).tolist() == [201.0, 43.0]
    assert rows.apply_transposed(torch.tensor([1.0, 10.0], dtype=torch.float64)).tolist() == [31.0, 40.0, 2.0]
    assert rows.sums().tolist() == [3.0, 7.0]
    assert pattern.longest_column == 2


def test_padding_is_no_entry_of_the_matrix() -> None:
    present = torch.tensor([[True, False, False], [True, True, True]])
    pattern = RowPattern(torch.tensor([[1, 1, 1], [0, 1, 2]], dtype=torch.int32), 3, present)
    rows = SparseRows(pattern, torch.tensor([[5.0, 0.0, 0.0], [1.0, 2.0, 3.0]], dtype=torch.float64))

    assert pattern.starts.tolist() == [0, 1, 4]
    assert pattern.columns.tolist() == [1, 0, 1, 2]
    assert pattern.longest_column == 2
    assert rows.to_dense().tolist() == [[0.0, 5.0, 0.0], [1.0, 2.0, 3.0]]
    assert rows.apply(torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)).tolist() == [50.0, 321.0]
    assert rows.apply_transposed(torch.tensor([1.0, 10.0], dtype=torch.float64)).tolist() == [
        10.0,
        25.0,
        30.0,
    ]


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 20),
    columns=st.integers(1, 20),
    length=st.integers(1, 10),
    at_once=st.one_of(st.none(), st.integers(1, 4)),
)
@settings(max_examples=100, deadline=None)
def test_products_in_both_directions_are_those_of_the_dense_matrix(
    seed: int, rows: int, columns: int, length: int, at_once: int | None
) -> None:
    matrix, dense = sparse(seed, rows, columns, length)
    x, y = vectors(seed, columns, at_once), vectors(seed + 1, rows, at_once)

    torch.testing.assert_close(matrix.to_dense(), dense, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(matrix.apply(x), dense @ x, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(matrix.apply_transposed(y), dense.T @ y, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(matrix.sums(), dense.sum(dim=1), rtol=0, atol=TOLERANCE)


def test_the_operator_averages_the_queries_of_a_node_and_ends_at_terminals() -> None:
    # Two nodes, two queries each; the second node is terminal.
    pattern = RowPattern(torch.tensor([[0], [1], [0], [0]], dtype=torch.int32), 2)
    rows = SparseRows(pattern, torch.tensor([[1.0], [0.5], [1.0], [1.0]], dtype=torch.float64))
    P = TransitionOperator(rows, torch.tensor([1.0, 0.0], dtype=torch.float64), group_size=2)

    assert P.size == 2
    assert P.to_dense().tolist() == [[0.5, 0.25], [0.0, 0.0]]
    assert P.apply(torch.tensor([2.0, 4.0], dtype=torch.float64)).tolist() == [2.0, 0.0]
    assert P.apply_transposed(torch.tensor([4.0, 8.0], dtype=torch.float64)).tolist() == [2.0, 1.0]
    # An entry of Px adds 2 products, one of Pᵀx up to 3, and 2 terms are averaged.
    assert P.terms_per_row == 3 + 2


@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 12),
    group_size=st.integers(1, 3),
    length=st.integers(1, 8),
    at_once=st.one_of(st.none(), st.integers(1, 3)),
)
@settings(max_examples=100, deadline=None)
def test_the_operator_and_its_transpose_are_adjoint_and_equal_the_dense_product(
    seed: int, nodes: int, group_size: int, length: int, at_once: int | None
) -> None:
    rows, dense = sparse(seed, nodes * group_size, nodes, length)
    continues = torch.as_tensor(np.random.default_rng(seed + 7).integers(0, 2, nodes).astype(float))
    P = TransitionOperator(rows, continues, group_size)
    by_hand = continues[:, None] * dense.reshape(nodes, group_size, nodes).mean(dim=1)
    x, y = vectors(seed, nodes, at_once), vectors(seed + 1, nodes, at_once)

    torch.testing.assert_close(P.to_dense(), by_hand, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(P.apply(x), by_hand @ x, rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(P.apply_transposed(y), by_hand.T @ y, rtol=0, atol=TOLERANCE)
    adjoint = ((P.apply(x) * y).sum(), (x * P.apply_transposed(y)).sum())
    torch.testing.assert_close(*adjoint, rtol=0, atol=100 * TOLERANCE)
