"""Rows that are left out together, and samples of rows that only what the rows say decides."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.data._held_out import duplicate_groups, held_out_groups, spread_rows
from nopg.envs import Pendulum, collect_grid, collect_uniform


def scattered(rows: list[int] | torch.Tensor, episodes: list[int] | None = None) -> Transitions:
    """Random rows of these numbers, equal numbers being copies."""
    data = collect_uniform(Pendulum(), 100, seed=0).take(torch.as_tensor(rows))
    return replace(data, episodes=None if episodes is None else torch.tensor(episodes))


def partition(groups: torch.Tensor, rows: torch.Tensor) -> set[frozenset[int]]:
    """The groups as sets of rows; `rows` says which original row each row is."""
    found: dict[int, set[int]] = {}
    for row, group in zip(rows.tolist(), groups.tolist(), strict=True):
        found.setdefault(group, set()).add(row)
    return {frozenset(group) for group in found.values()}


# Groups.


def test_without_episodes_rows_are_left_out_with_their_copies() -> None:
    assert held_out_groups(scattered([4, 7, 4, 9, 7])).tolist() == [0, 1, 0, 2, 1]


def test_episodes_are_left_out_whole() -> None:
    assert held_out_groups(scattered([0, 1, 2, 3, 4], [8, 3, 8, 3, 5])).tolist() == [8, 3, 8, 3, 5]


def test_copies_in_several_episodes_go_with_the_one_of_the_smallest_number() -> None:
    data = scattered([0, 1, 0, 2, 0, 2], [5, 5, 3, 3, 4, 4])
    assert held_out_groups(data).tolist() == [3, 5, 3, 3, 3, 3]


def test_a_single_episode_is_left_out_by_tenths_in_the_order_of_time() -> None:
    groups = held_out_groups(scattered(torch.arange(60), [2] * 60))
    assert groups.tolist() == [time // 6 for time in range(60)]


cases = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 15), min_size=n, max_size=n),
        st.none() | st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


@settings(deadline=None)
@given(case=cases)
def test_no_copy_of_a_row_stays_when_the_row_is_left_out(case: tuple[list[int], list[int] | None]) -> None:
    data = scattered(*case)
    groups, copies = held_out_groups(data), duplicate_groups(data)
    together = copies[:, None] == copies
    assert groups.dtype == torch.int64
    assert bool((groups[:, None] == groups)[together].all())
    assert torch.equal(held_out_groups(data, duplicates=copies), groups)


@settings(deadline=None)
@given(case=cases, seed=st.integers(0, 20))
def test_the_order_of_the_rows_changes_no_group(case: tuple[list[int], list[int] | None], seed: int) -> None:
    rows, episodes = case
    # Two rows of other episodes: a single one would be cut by time, which is the order of its rows.
    data = scattered([*rows, 20, 21], None if episodes is None else [*episodes, 100, 101])
    order = torch.randperm(len(data), generator=generator(seed))
    expected = partition(held_out_groups(data), torch.arange(len(data)))
    assert partition(held_out_groups(data.take(order)), order) == expected


# Samples.


def drawn(data: Transitions, count: int = 20, purpose: str = "test") -> torch.Tensor:
    """The rows that are drawn, by what they say: (s, a, r, s′), angles by cosine and sine."""
    rows = spread_rows(data, count, purpose=purpose)
    table = torch.cat([data.features, data.actions, data.rewards[:, None], data.next_features], dim=1)
    return table[rows]


DATASETS = {
    "scattered": collect_uniform(Pendulum(), 100, seed=0),
    "grid": collect_grid(Pendulum(), (5, 4, 3)),
    "copies": scattered([*range(30), *range(10), 3, 3, 3]),
    "episodes": scattered(torch.arange(60), [k // 7 for k in range(60)]),
    "one action": replace(scattered(torch.arange(60)), actions=torch.full((60, 1), 0.1, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_rows_does_not_decide_which_are_drawn(name: str, seed: int) -> None:
    data = DATASETS[name]
    mixed = data.take(torch.randperm(len(data), generator=generator(seed)))
    # Of two copies either may be drawn: −π and π are one place up to rounding.
    torch.testing.assert_close(drawn(mixed), drawn(data), rtol=0, atol=1e-12)


def test_rows_are_drawn_anew_for_another_purpose_and_from_no_global_generator() -> None:
    before = torch.get_rng_state()
    assert torch.equal(drawn(DATASETS["grid"]), drawn(DATASETS["grid"]))
    assert not torch.equal(drawn(DATASETS["grid"], purpose="other"), drawn(DATASETS["grid"]))
    assert torch.equal(torch.get_rng_state(), before)


# Duplicates: rows that are equal, whatever the order, the units or the turn.


def alike(data: Transitions) -> set[frozenset[int]]:
    """The groups of duplicates as sets of rows."""
    return partition(duplicate_groups(data), torch.arange(len(data)))


def some_repeated(seed: int = 0) -> Transitions:
    """Thirty rows: the numbers 0 to 11 and eighteen repetitions of some of them."""
    rows = torch.cat([torch.arange(12), torch.randint(12, (18,), generator=generator(seed))])
    return collect_uniform(Pendulum(), 12, seed=seed).take(rows)


@pytest.mark.parametrize("column", ["states", "actions", "rewards", "next_states"])
def test_rows_that_differ_in_one_column_only_are_different(column: str) -> None:
    data = some_repeated().take(torch.tensor([0, 0, 1, 2]))
    assert duplicate_groups(data).tolist() == [0, 0, 1, 2]
    changed = getattr(data, column).clone()
    # A millionth of a spread, a thousand times the tolerance.
    changed[0] += 1e-6 * changed.std(dim=0)
    assert duplicate_groups(replace(data, **{column: changed})).tolist() == [0, 1, 2, 3]


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
    assert alike(changed) == alike(data)


def test_plus_and_minus_half_a_turn_are_the_same_place() -> None:
    # Both ends of the angle's axis are the same place, and reward and next state agree there up to rounding.
    data = collect_grid(Pendulum(), (5, 3, 2))
    groups = duplicate_groups(data)
    low, high = (data.states[:, 0] == -math.pi), (data.states[:, 0] == math.pi)
    assert torch.equal(groups[low], groups[high])
    assert len(groups.unique()) == 4 * 3 * 2
