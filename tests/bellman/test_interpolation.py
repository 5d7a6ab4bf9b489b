import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.bellman._nodes import centered_weights


def weights_of(y: torch.Tensor, slack: float) -> tuple[torch.Tensor, torch.Tensor]:
    return padded_weights(y, torch.zeros(y.shape[:2], dtype=torch.float64), slack)


def padded_weights(y: torch.Tensor, log_psi: torch.Tensor, slack: float) -> tuple[torch.Tensor, torch.Tensor]:
    P, tilt = centered_weights(y.permute(2, 1, 0).numpy(), log_psi.T.numpy(), slack)
    return torch.as_tensor(P.T), torch.as_tensor(tilt.T)


def random_offsets(seed: int, rows: int = 20, nodes: int = 12, columns: int = 2) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(rows, nodes, columns)))


def mean_of(y: torch.Tensor, P: torch.Tensor) -> torch.Tensor:
    return torch.einsum("mk,mkd->md", P, y)


def inside_the_hull(columns: int) -> torch.Tensor:
    """Return offsets of random nodes from places that are convex combinations of them, (20, 12, d)."""
    nodes = random_offsets(0, columns=columns)
    shares = torch.as_tensor(np.random.default_rng(1).dirichlet(np.ones(12), 20))
    return nodes - mean_of(nodes, shares)[:, None]


def line(*nodes: float) -> torch.Tensor:
    return torch.tensor(nodes, dtype=torch.float64)[None, :, None]


# By hand


@pytest.mark.parametrize("slack", [1e-9, 1e-2, 1.0])
def test_between_two_nodes_the_tilt_solves_one_equation(slack: float) -> None:
    # P = (p, 1 − p) on −1 and 3. The odds are p/(1 − p) = exp(4 − 4λ), and 3 − 4p = −ρλ.
    P, tilt = weights_of(line(-1.0, 3.0), slack)
    p, lam = float(P[0, 0]), float(tilt)
    assert p / (1 - p) == pytest.approx(math.exp(4 - 4 * lam), rel=1e-9)
    assert 3 - 4 * p == pytest.approx(-slack * lam, abs=1e-12)
    if slack == 1e-9:
        assert p == pytest.approx(0.75, abs=1e-8)


def test_columns_without_offsets_change_nothing_however_many() -> None:
    y = random_offsets(3, columns=3)
    P, tilt = weights_of(y, 1e-2)
    many, tilts = weights_of(torch.cat([torch.zeros(20, 12, 21, dtype=torch.float64), y], dim=2), 1e-2)
    torch.testing.assert_close(many, P, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(tilts[:, 21:], tilt, rtol=1e-9, atol=1e-9)
    assert not tilts[:, :21].any()


# Centred


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_inside_the_hull_the_mean_stands_at_the_place(columns: int) -> None:
    y = inside_the_hull(columns)
    P, tilt = weights_of(y, 1e-9)
    # What is left is ρλ.
    assert float(tilt.abs().max()) < 1e3
    assert float(mean_of(y, P).abs().max()) <= 1e-6
    torch.testing.assert_close(P.sum(dim=1), torch.ones(20, dtype=torch.float64), rtol=0, atol=1e-14)
    assert bool((P >= 0).all())


def test_of_all_centred_weights_they_have_the_most_entropy_and_are_the_nearest() -> None:
    y = inside_the_hull(2)
    P, _ = weights_of(y, 1e-9)

    def objective(P: torch.Tensor) -> torch.Tensor:
        return -(P * P.log() + 0.5 * P * y.square().sum(dim=2)).sum(dim=1)

    # Steps that change neither the sum nor the mean: the null space of (1, y).
    constraints = torch.cat([torch.ones_like(y[..., :1]), y], dim=2).transpose(1, 2)  # (m, 3, K)
    free = torch.linalg.svd(constraints).Vh[:, 3:]  # (m, K − 3, K)
    for direction in free.unbind(dim=1):
        step = 0.5 * P.amin(dim=1, keepdim=True) * direction
        assert bool((objective(P) > objective(P + step)).all())
        assert bool((objective(P) > objective(P - step)).all())


@given(
    seed=st.integers(0, 10**6),
    columns=st.integers(1, 5),
    nodes=st.integers(1, 30),
    scales=st.tuples(st.floats(1e-3, 30.0), st.floats(0.0, 30.0)),
    slack=st.sampled_from([1e-2, 0.1, 1.0]),
)
@settings(max_examples=100, deadline=None)
def test_the_mean_offset_is_minus_the_slack_times_the_tilt(
    seed: int, columns: int, nodes: int, scales: tuple[float, float], slack: float
) -> None:
    (spread, off), rng = scales, np.random.default_rng(seed)
    y = spread * random_offsets(seed, 4, nodes, columns) + torch.as_tensor(
        off * rng.normal(size=(4, 1, columns))
    )
    P, tilt = weights_of(y, slack)
    size = torch.einsum("mk,mk->m", P, y.norm(dim=2)) + slack * tilt.norm(dim=1)
    left = (mean_of(y, P) + slack * tilt).norm(dim=1)
    # Weights are no better than the rounding of their logits λ·y.
    rounding = 1e-15 * tilt.norm(dim=1) * y.norm(dim=2).amax(dim=1)
    assert bool((left <= (1e-9 + rounding) * size + 1e-12).all())
    assert bool((P >= 0).all())


def test_places_outside_nodes_many_widths_apart_are_solved_to_the_end() -> None:
    y = 15.0 * random_offsets(183, 2_000, 6, 4) + 18.0 * random_offsets(184, 2_000, 1, 4)
    P, tilt = weights_of(y, 1e-2)
    # Some of these take more than 100 steps.
    assert float((mean_of(y, P) + 1e-2 * tilt).abs().max()) <= 1e-6


# What must not matter


def test_padding_is_ignored() -> None:
    y = random_offsets(12)
    P, tilt = weights_of(y, 1e-2)
    padded = torch.cat([y, y[:, :1].expand(-1, 3, -1)], dim=1)
    log_psi = torch.zeros(20, 15, dtype=torch.float64)
    log_psi[:, 12:] = -math.inf
    P_padded, tilt_padded = padded_weights(padded, log_psi, 1e-2)
    assert P_padded[:, 12:].abs().max() == 0.0
    torch.testing.assert_close(P_padded[:, :12], P, rtol=0, atol=1e-14)
    torch.testing.assert_close(tilt_padded, tilt, rtol=1e-12, atol=1e-12)


# Edges


@pytest.mark.parametrize("distance", [10.0, 1e3, 1e6])
def test_far_outside_the_hull_everything_is_finite_and_the_nearest_side_counts(distance: float) -> None:
    # The place is to the left of all nodes.
    y = line(0.0, 0.5, 1.0) + distance
    P, tilt = weights_of(y, 1e-2)
    assert float(P[0, 0]) > 0.99
    assert bool(tilt.isfinite().all())


@pytest.mark.parametrize("offset", [0.0, 0.3, 40.0])
def test_a_single_node_carries_everything(offset: float) -> None:
    y = torch.full((1, 1, 2), offset, dtype=torch.float64)
    P, tilt = weights_of(y, 1e-2)
    assert P.tolist() == [[1.0]]
    assert tilt[0].tolist() == pytest.approx([-100 * offset] * 2)
