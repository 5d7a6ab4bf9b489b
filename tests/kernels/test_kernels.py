"""The Gaussian kernel against its formula, and bandwidths as one validated value."""

import dataclasses
import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths, GaussianKernel

coordinates = st.lists(st.floats(-100, 100), min_size=3, max_size=3)
widths = st.lists(st.floats(0.01, 100), min_size=3, max_size=3)


def vector(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_kernel_computed_by_hand() -> None:
    # ((1 − 0)/1)² + ((0 − 2)/2)² + ((3 − 0)/6)² = 1 + 1 + 1/4.
    kernel = GaussianKernel(vector([1.0, 2.0, 6.0]))
    assert kernel.log(vector([1.0, 0.0, 3.0]), vector([0.0, 2.0, 0.0])).item() == -1.125


@settings(deadline=None)
@given(x=coordinates, y=coordinates, h=widths)
def test_the_kernel_is_a_product_of_normal_densities_over_their_peaks(
    x: list[float], y: list[float], h: list[float]
) -> None:
    expected = sum(norm.logpdf(x, loc=y, scale=h) - norm.logpdf(0.0, scale=h))
    # Both sides round a few terms of up to ½(200/.01)² each.
    assert GaussianKernel(vector(h)).log(vector(x), vector(y)).item() == pytest.approx(
        expected, rel=1e-12, abs=1e-12
    )


@settings(deadline=None)
@given(x=coordinates, y=coordinates, h=widths)
def test_the_kernel_is_symmetric_with_its_peak_of_one_where_the_points_meet(
    x: list[float], y: list[float], h: list[float]
) -> None:
    kernel = GaussianKernel(vector(h))
    assert kernel.log(vector(x), vector(x)).item() == 0.0
    assert kernel.log(vector(x), vector(y)).item() == kernel.log(vector(y), vector(x)).item() <= 0.0


def test_logarithms_do_not_underflow_where_the_kernel_does() -> None:
    log = GaussianKernel(vector([1e-3])).log(vector([0.0]), vector([1e3]))
    assert log.exp().item() == 0.0
    assert log.item() == pytest.approx(-0.5e12)


def test_units_cancel_between_points_and_bandwidth() -> None:
    x, y, h = (torch.rand(3, dtype=torch.float64, generator=generator(k)) for k in range(3))
    units = vector([1e-3, 25.4, 1e6])
    torch.testing.assert_close(
        GaussianKernel(h * units).log(x * units, y * units), GaussianKernel(h).log(x, y), rtol=1e-13, atol=0
    )


def test_batches_broadcast_over_all_but_the_last_dimension() -> None:
    kernel = GaussianKernel(vector([0.5, 2.0]))
    x = torch.rand(4, 1, 2, dtype=torch.float64, generator=generator(0))
    y = torch.rand(3, 2, dtype=torch.float64, generator=generator(1))
    table = kernel.log(x, y)
    assert table.shape == (4, 3)
    for i in range(4):
        for j in range(3):
            assert table[i, j].item() == kernel.log(x[i, 0], y[j]).item()


def test_scaling_divides_by_the_bandwidth() -> None:
    assert GaussianKernel(vector([0.5, 2.0])).scale(vector([[1.0, 1.0]])).tolist() == [[2.0, 0.5]]


def test_a_draw_is_the_center_moved_by_noise_times_the_bandwidth() -> None:
    kernel = GaussianKernel(vector([0.5, 2.0]))
    assert kernel.draw(vector([1.0, 1.0]), vector([[1.0, -1.0], [0.0, 3.0]])).tolist() == [
        [1.5, -1.0],
        [1.0, 7.0],
    ]


def test_draws_have_the_bandwidth_as_their_standard_deviation() -> None:
    h = vector([0.5, 20.0])
    noise = torch.randn(20_000, 2, dtype=torch.float64, generator=generator(0))
    draws = GaussianKernel(h).draw(vector([3.0, -3.0]), noise)
    # Standard errors: σ/√20000 of the mean, σ/√40000 of the deviation; four of each.
    assert bool(((draws.mean(dim=0) - vector([3.0, -3.0])).abs() < 4 * h / math.sqrt(20_000)).all())
    assert bool(((draws.std(dim=0) - h).abs() < 4 * h / math.sqrt(40_000)).all())


@pytest.mark.parametrize("wrong", [[0.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], [[1.0, 1.0]]])
def test_bandwidths_are_positive_finite_numbers_one_per_column(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="give one positive, finite number per column"):
        GaussianKernel(vector(wrong))
    for place in range(3):
        values: list[Any] = [[1.0, 1.0], [1.0], [1.0, 1.0]]
        values[place] = wrong
        with pytest.raises(ArgumentError, match="give one positive, finite number per column"):
            Bandwidths.from_values(*values)


def test_each_kernel_has_its_own_bandwidth() -> None:
    h = Bandwidths.from_values([1.0, 2.0], [3.0], [4.0, 5.0])
    assert h.state_kernel.bandwidth.tolist() == [1.0, 2.0]
    assert h.action_kernel.bandwidth.tolist() == [3.0]
    assert h.next_state_kernel.bandwidth.tolist() == [4.0, 5.0]


def test_next_states_take_the_bandwidth_of_the_states_where_none_is_given() -> None:
    assert Bandwidths.from_values([1.0, 2.0], [3.0]).next_states.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("convert", [list, np.float32, torch.tensor], ids=["list", "float32", "tensor"])
def test_bandwidths_from_any_numbers_are_float64(convert: Any) -> None:
    h = Bandwidths.from_values(convert([1, 2]), convert([3]))
    assert h.states.dtype == h.actions.dtype == h.next_states.dtype == torch.float64
    assert (h.states.tolist(), h.actions.tolist()) == ([1.0, 2.0], [3.0])


def test_one_number_is_a_bandwidth_of_one_column() -> None:
    h = Bandwidths.from_values(0.5, 2)
    assert (h.states.tolist(), h.actions.tolist()) == ([0.5], [2.0])


def test_the_repr_shows_every_number_and_its_source() -> None:
    assert repr(Bandwidths.from_values([0.123456, 2.0], [3.0], source="a test")) == (
        "Bandwidths(states=[0.1235, 2], actions=[3], next_states=[0.1235, 2], source='a test')"
    )


def test_kernels_and_bandwidths_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        cast(Any, GaussianKernel(vector([1.0]))).bandwidth = vector([2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        cast(Any, Bandwidths.from_values(1.0, 1.0)).states = vector([2.0])
