"""Datasets queried over a box: how many rows, where they lie, what they carry."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from nopg.data import Transitions
from nopg.environments import PENDULUM_GRIDS, Pendulum
from nopg.errors import ArgumentError
from nopg.rollouts import collect_grid, collect_uniform


@pytest.fixture
def grid() -> Transitions:
    return collect_grid(Pendulum(), (3, 5, 2))


@pytest.mark.parametrize("size", PENDULUM_GRIDS)
def test_each_paper_grid_has_its_number_of_distinct_rows(size: int) -> None:
    data = collect_grid(Pendulum(), PENDULUM_GRIDS[size])
    assert len(data) == size
    assert len(torch.cat([data.states, data.actions], dim=1).unique(dim=0)) == size


def test_a_grid_is_the_product_of_its_axes(grid: Transitions) -> None:
    axes = [(-math.pi, 0.0, math.pi), (-8.0, -4.0, 0.0, 4.0, 8.0), (-2.0, 2.0)]
    expected = torch.tensor(list(itertools.product(*axes)), dtype=torch.float64)
    torch.testing.assert_close(torch.cat([grid.states, grid.actions], dim=1), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("points", PENDULUM_GRIDS.values())
def test_a_grid_reaches_every_corner_of_the_box_exactly(points: tuple[int, int, int]) -> None:
    data = collect_grid(Pendulum(), points)
    rows = set(map(tuple, torch.cat([data.states, data.actions], dim=1).tolist()))
    assert set(itertools.product((-math.pi, math.pi), (-8.0, 8.0), (-2.0, 2.0))) <= rows


def test_a_grid_is_uneven_nowhere() -> None:
    angles = collect_grid(Pendulum(), (40, 2, 2)).states[:, 0].unique()
    torch.testing.assert_close(angles.diff(), torch.full((39,), 2 * math.pi / 39, dtype=torch.float64))


@pytest.mark.parametrize(
    "collect", [lambda p: collect_grid(p, (4, 4, 3)), lambda p: collect_uniform(p, 48, seed=1)]
)
def test_rows_are_the_environments_own_transitions(collect: Callable[[Pendulum], Transitions]) -> None:
    pendulum = Pendulum()
    data = collect(pendulum)
    assert len(data) == 48
    assert torch.equal(data.next_states, pendulum.step(data.states, data.actions))
    assert torch.equal(data.rewards, pendulum.reward(data.states, data.actions, data.next_states))


def test_rows_are_single_transitions_that_neither_end_nor_are_cut(grid: Transitions) -> None:
    assert grid.episodes is None
    assert not grid.terminated.any()
    assert not grid.truncated.any()


def test_a_grid_carries_names_angles_and_the_start_of_the_task(grid: Transitions) -> None:
    assert grid.schema.states == ("angle", "velocity")
    assert grid.schema.actions == ("torque",)
    assert dict(grid.schema.angles) == {"angle": 2 * math.pi}
    assert grid.initial_states is not None
    assert grid.initial_states.tolist() == [[math.pi, 0.0]]


def test_a_random_start_needs_a_seed_and_then_repeats() -> None:
    pendulum = Pendulum(start="random")
    with pytest.raises(ArgumentError, match="seed"):
        collect_grid(pendulum, (2, 2, 2))

    first, again = (collect_grid(pendulum, (2, 2, 2), num_initial_states=5, seed=3) for _ in range(2))

    assert first.initial_states is not None
    assert again.initial_states is not None
    assert first.initial_states.shape == (5, 2)
    assert torch.equal(first.initial_states, again.initial_states)


def test_uniform_rows_fill_the_box_and_stay_in_it() -> None:
    data = collect_uniform(Pendulum(), 2000, seed=0)
    rows = torch.cat([data.states, data.actions], dim=1)
    high = torch.tensor([math.pi, 8.0, 2.0], dtype=torch.float64)

    assert (rows.abs() <= high).all()
    # Standard error of a mean of 2000 uniform draws: 0.013 of the half-width; four of them.
    assert (rows.mean(0).abs() <= 0.052 * high).all()
    assert (rows.amax(0) >= 0.99 * high).all()
    assert (rows.amin(0) <= -0.99 * high).all()


def test_uniform_rows_repeat_with_their_seed() -> None:
    first, again, other = (collect_uniform(Pendulum(), 10, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.states, other.states)


def test_uniform_rows_do_not_touch_the_global_generator() -> None:
    before = torch.get_rng_state()
    collect_uniform(Pendulum(start="random"), 10, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give 3, for angle, velocity, torque"):
        collect_grid(Pendulum(), (10, 10))
    with pytest.raises(ArgumentError, match="at least 2"):
        collect_grid(Pendulum(), (10, 10, 1))
    with pytest.raises(ArgumentError, match="num_transitions"):
        collect_uniform(Pendulum(), 0, seed=0)
