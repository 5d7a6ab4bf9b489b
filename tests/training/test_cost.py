"""Time and memory of an update, each size in a process of its own; minutes, so only in `make check-slow`."""

import pytest

from evidence.cost import measure_in_a_process


@pytest.mark.slow
def test_an_update_on_ten_thousand_transitions_takes_a_fraction_of_a_second_and_of_a_gigabyte() -> None:
    cost = measure_in_a_process(10_000, updates=50)
    assert cost["seconds_per_update"] <= 0.15
    assert cost["peak_gigabytes"] <= 1.0


@pytest.mark.slow
def test_an_update_on_a_hundred_thousand_transitions_fits_a_gigabyte_and_a_half() -> None:
    assert measure_in_a_process(100_000, updates=2)["peak_gigabytes"] <= 1.5
