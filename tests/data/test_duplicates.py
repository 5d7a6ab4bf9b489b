"""Duplicates are rows that say the same thing, whatever the order, the units or the turn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.data._held_out import duplicate_groups
from nopg.envs import Pendulum, collect_grid, collect_uniform


def partition(data: Transitions, rows: torch.Tensor | None = None) -> set[frozenset[int]]:
    """The groups as sets of rows; `rows` says which original row each row of the data is."""
    groups: dict[int, set[int]] = {}
    numbers = list(range(len(data))) if rows is None else rows.tolist()
    for number, group in zip(numbers, duplicate_groups(data).tolist(), strict=True):
        groups.setdefault(group, set()).add(number)
    return {frozenset(group) for group in groups.values()}


def some_repeated(seed: int = 0) -> Transitions:
    """Thirty rows: the numbers 0 to 11 and eighteen repetitions of some of them."""
    rows = torch.cat([torch.arange(12), torch.randint(12, (18,), generator=generator(seed))])
    return collect_uniform(Pendulum(), 12, seed=seed).take(rows)


def test_groups_are_numbered_by_first_appearance() -> None:
    data = Transitions.from_arrays([5.0, 1.0, 5.0, 3.0, 1.0], [1.0] * 5, [2.0] * 5, [5.0, 1.0, 5.0, 3.0, 1.0])
    assert duplicate_groups(data).tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("column", ["states", "actions", "rewards", "next_states"])
def test_rows_that_differ_in_one_column_only_are_different(column: str) -> None:
    data = some_repeated().take(torch.tensor([0, 0, 1, 2]))
    assert duplicate_groups(data).tolist() == [0, 0, 1, 2]
    changed = getattr(data, column).clone()
    # A millionth of a spread, a thousand times the tolerance.
    changed[0] += 1e-6 * changed.std(dim=0)
    assert duplicate_groups(replace(data, **{column: changed})).tolist() == [0, 1, 2, 3]


@settings(deadline=None)  # the first call of a busy machine may take its time
@given(seed=st.integers(0, 50), order=st.integers(0, 50))
def test_the_order_of_the_rows_does_not_matter(seed: int, order: int) -> None:
    data = some_repeated(seed)
    rows = torch.randperm(len(data), generator=generator(order))
    assert partition(data.take(rows), rows) == partition(data)


@settings(deadline=None)
@given(
    seed=st.integers(0, 20),
    scale=st.sampled_from([1e-6, -1.0, 25.4, 1e6]),
    shift=st.sampled_from([0.0, -3.0, 273.15]),
)
def test_the_units_of_the_columns_do_not_matter(seed: int, scale: float, shift: float) -> None:
    data = some_repeated(seed)
    speed = torch.tensor([1.0, scale], dtype=torch.float64)
    offset = torch.tensor([0.0, scale * shift], dtype=torch.float64)
    changed = replace(
        data,
        states=data.states * speed + offset,
        next_states=data.next_states * speed + offset,
        actions=data.actions * scale + scale * shift,
        rewards=data.rewards * scale + scale * shift,
    )
    assert partition(changed) == partition(data)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_rows_in_tiny_and_in_huge_units_are_told_apart_and_found_again(unit: float) -> None:
    x = unit * torch.tensor([1.0, 2.0, 4.0, 1.0], dtype=torch.float64)
    x[3] *= 1 + 2 * np.finfo(np.float64).eps  # a copy but for rounding, 10⁻⁴ off in huge units
    assert duplicate_groups(Transitions.from_arrays(x, x, x, x)).tolist() == [0, 1, 2, 0]


def test_plus_and_minus_half_a_turn_are_the_same_place() -> None:
    # Both ends of the angle's axis are the same place, and reward and next state agree there up to rounding.
    data = collect_grid(Pendulum(), (5, 3, 2))
    groups = duplicate_groups(data)
    low, high = (data.states[:, 0] == -math.pi), (data.states[:, 0] == math.pi)
    assert torch.equal(groups[low], groups[high])
    assert len(groups.unique()) == 4 * 3 * 2


def test_rounding_does_not_make_a_row_new() -> None:
    data = some_repeated().take(torch.tensor([0, 1, 2, 0]))
    states = data.states.clone()
    # Two units in the last place: far below the tolerance of 10⁻⁹ spreads.
    states[3] *= 1 + 2 * np.finfo(np.float64).eps
    assert duplicate_groups(replace(data, states=states)).tolist() == [0, 1, 2, 0]


def test_constant_columns_and_single_rows_are_no_obstacle() -> None:
    data = Transitions.from_arrays([0.1] * 3, [0.1] * 3, [0.1, 0.2, 0.1], [0.1] * 3)
    assert duplicate_groups(data).tolist() == [0, 1, 0]
    assert duplicate_groups(data.take(torch.tensor([1]))).tolist() == [0]
