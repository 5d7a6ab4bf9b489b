"""Lost ψ-mass by hand and by its limits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neighbors.clouds import cloud
from nopg.neighbors._faiss import lost_mass


def test_by_hand() -> None:
    exact = torch.tensor([[0.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    found = torch.tensor([[0.0, 2.0], [2.0, 3.0]], dtype=torch.float64)
    psi = [math.exp(-0.5 * d * d) for d in range(4)]
    expected = [1 - (psi[0] + psi[2]) / (psi[0] + psi[1]), 1 - (psi[2] + psi[3]) / (psi[1] + psi[2])]
    assert lost_mass(found, exact).tolist() == pytest.approx(expected)


@given(rows=st.integers(1, 9), k=st.integers(1, 9), seed=st.integers(0, 1000), away=st.floats(0, 1e6))
def test_what_is_found_whole_is_not_lost_however_far_it_is(rows: int, k: int, seed: int, away: float) -> None:
    exact = (cloud(rows, k, seed).abs() + away).sort(dim=1).values
    assert lost_mass(exact, exact).tolist() == rows * [0.0]


@given(rows=st.integers(1, 9), k=st.integers(1, 9), seed=st.integers(0, 1000))
def test_losses_are_shares_and_grow_with_the_distances(rows: int, k: int, seed: int) -> None:
    exact = cloud(rows, k, seed).abs().sort(dim=1).values
    nearer, farther = exact + 0.1, exact + 0.2
    lost, more = lost_mass(nearer, exact), lost_mass(farther, exact)
    assert bool((lost >= 0).all())
    assert bool((more <= 1).all())
    assert bool((more >= lost).all())


def test_a_neighbour_that_was_not_found_is_as_good_as_infinitely_far() -> None:
    exact = torch.tensor([[1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    found = torch.tensor([[1.0, 1.0, 1.0, math.inf]], dtype=torch.float64)
    assert lost_mass(found, exact).tolist() == pytest.approx([0.25])
