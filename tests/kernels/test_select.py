"""Selected bandwidths: what does not move them, what bounds them, what is refused; and the paper's recipe."""

import inspect
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from kernels.bandwidth_cases import (
    INVARIANCES,
    bandwidth_vector,
    pendulum_datasets,
    selected_bandwidth_invariances,
)
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid, collect_uniform, simulate
from nopg.errors import DataError
from nopg.kernels import _leave_one_out, paper_bandwidths, select_bandwidths
from nopg.kernels._leave_one_out import leave_one_out, nearest_held_out
from nopg.kernels._spacing import level_spacing, step_length
from nopg.kernels._table import RegressionTable

GRID = (10, 10, 2)
ANGLE_CHORD = 2 * math.sin(math.pi / 9)  # ten values from −π to π are nine places
VELOCITY_GAP = 16 / 9
TORQUE_GAP = 4.0


def slow_pendulum() -> Pendulum:
    """A pendulum sampled ten times as often."""
    return Pendulum(time_step=0.005)


def sliding_block(n: int = 200) -> Transitions:
    """A mass that moves by its speed, and whose load, a state too, never changes within a step."""
    s = torch.rand(n, 3, dtype=torch.float64, generator=generator(0, "block"))
    u = torch.rand(n, 1, dtype=torch.float64, generator=generator(1, "block"))
    speed = s[:, 1] + 0.2 * (u[:, 0] - s[:, 2])
    moved = torch.stack([s[:, 0] + 0.2 * speed, speed, s[:, 2]], dim=1)
    return Transitions.from_arrays(
        s, u, -(s[:, 0] ** 2), moved, state_names=["x", "v", "load"], action_names=["u"]
    )


# What does not move them.


@pytest.fixture(scope="module")
def deviations() -> dict[str, float]:
    return selected_bandwidth_invariances()


@pytest.mark.parametrize("name", INVARIANCES)
def test_bandwidths_do_not_depend_on_how_the_data_are_written_down(
    name: str, deviations: dict[str, float]
) -> None:
    # The search ends where its gradient or its progress does, and rounding moves that point a little; 10⁻⁴ of
    # a bandwidth changes no result.
    assert deviations[name] < 1e-4


def test_every_invariance_is_measured(deviations: dict[str, float]) -> None:
    assert tuple(deviations) == INVARIANCES


def test_a_reward_in_very_large_units_still_counts() -> None:
    data = collect_uniform(Pendulum(), 100, seed=0)
    tiny = replace(data, rewards=1e-13 * data.rewards)
    torch.testing.assert_close(bandwidth_vector(tiny), bandwidth_vector(data), rtol=1e-4, atol=0)


def test_row_order_does_not_matter_where_episodes_share_rows() -> None:
    torques = 4 * torch.rand(20, 6, 1, dtype=torch.float64, generator=generator(0)) - 2
    torques[:8] = 2.0  # six episodes begin alike
    steps = iter(torques)
    data = simulate(Pendulum(), lambda _: next(steps), steps=20, num_episodes=6).transitions(Pendulum())
    mixed = data.take(torch.randperm(len(data), generator=generator(0)))
    torch.testing.assert_close(bandwidth_vector(mixed), bandwidth_vector(data), rtol=1e-4, atol=0)


def test_the_sign_of_a_column_does_not_matter_where_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in {"_ALL_PAIRS_UP_TO": 100, "_ROWS_SAMPLED": 150, "_NEIGHBORS": 64}.items():
        monkeypatch.setattr(_leave_one_out, constant, value)
    data = collect_uniform(Pendulum(), 300, seed=0)
    mirror = torch.tensor([1.0, -1.0], dtype=torch.float64)
    turned = replace(data, states=data.states * mirror, next_states=data.next_states * mirror)
    torch.testing.assert_close(bandwidth_vector(turned), bandwidth_vector(data), rtol=1e-4, atol=0)


def test_other_data_give_other_bandwidths() -> None:
    grid, scattered, episodes = (bandwidth_vector(data) for data in pendulum_datasets().values())
    for one, other in ((grid, scattered), (grid, episodes), (scattered, episodes)):
        assert float((one / other - 1).abs().max()) > 0.1


def test_selection_repeats_and_leaves_data_and_global_generator_alone() -> None:
    data = collect_uniform(Pendulum(), 100, seed=0)
    before = data.states.clone(), torch.get_rng_state()
    first, again = bandwidth_vector(data), bandwidth_vector(data)
    assert torch.equal(first, again)
    assert torch.equal(data.states, before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_the_data_are_all_that_selection_is_told() -> None:
    # No policy, no discount, no start: what rewards bad bandwidths cannot enter.
    assert list(inspect.signature(select_bandwidths).parameters) == ["data"]


def test_neither_starts_nor_ends_play_a_part() -> None:
    data = collect_uniform(Pendulum(), 100, seed=0)
    ended = torch.arange(100) % 3 == 0
    other = replace(data, initial_states=data.states[:5], terminated=ended, truncated=~ended)
    assert torch.equal(bandwidth_vector(other), bandwidth_vector(data))


# What bounds them.


def test_without_a_bound_they_are_those_of_the_held_out_error() -> None:
    s, a = torch.rand(2, 300, generator=generator(0, "rows"), dtype=torch.float64)
    data = Transitions.from_arrays(s, a, a.square(), s + a)  # long steps that the action decides
    found = leave_one_out(RegressionTable.from_data(data)).bandwidths
    h = select_bandwidths(data)
    assert h.source == "leave-one-out"
    # The same search, with bounds that do not bind but are known to it.
    torch.testing.assert_close(torch.cat([h.states, h.actions]), found, rtol=1e-4, atol=0)


def test_on_a_grid_they_are_at_least_a_share_of_its_spacing() -> None:
    data = collect_grid(Pendulum(), GRID)
    h = select_bandwidths(data)
    floor = torch.tensor([0.3 * ANGLE_CHORD] * 2 + [0.3 * VELOCITY_GAP], dtype=torch.float64)
    assert bool((h.states >= floor * (1 - 1e-12)).all())
    # These two bounds bind: exact up to an exponential and a division.
    torch.testing.assert_close(h.states[:2], floor[:2], rtol=1e-12, atol=0)
    assert h.actions.item() == pytest.approx(TORQUE_GAP / 2, rel=1e-12)
    assert h.source == ("leave-one-out, held up by the spacing of the data on cos angle, sin angle, torque")


def test_without_the_spacing_the_error_alone_would_be_narrower_on_a_grid() -> None:
    found = leave_one_out(RegressionTable.from_data(collect_grid(Pendulum(), GRID))).bandwidths
    assert float(found[0]) < 0.3 * ANGLE_CHORD


def test_where_steps_are_short_states_get_at_most_two_of_them() -> None:
    data = collect_uniform(Pendulum(time_step=0.02), 300, seed=0)
    h = select_bandwidths(data)
    cap = 2 * step_length(data)[[0, 0, 1]]
    free = leave_one_out(RegressionTable.from_data(data)).bandwidths[:3]
    assert bool((free > cap).all())
    assert bool((h.states <= cap * (1 + 1e-12)).all())
    # The bound on the velocity binds: exact up to an exponential and a division.
    torch.testing.assert_close(h.states[2], cap[2], rtol=1e-12, atol=0)
    assert h.source == "leave-one-out, held down by steps or the range of actions on velocity, torque"


def test_actions_whose_effect_is_lost_in_one_step_stay_visible() -> None:
    data = collect_uniform(Pendulum(time_step=0.005), 300, seed=1)
    found = leave_one_out(RegressionTable.from_data(data)).bandwidths
    h = select_bandwidths(data)
    span = float(data.actions.max() - data.actions.min())
    assert found[-1] > span  # the error alone would not look at the torque
    assert float(h.actions[0]) <= 0.5 * span * (1 + 1e-12)


def test_widths_held_down_by_short_steps_still_reach_from_row_to_row() -> None:
    data = collect_uniform(Pendulum(time_step=0.005), 300, seed=0)
    table = RegressionTable.from_data(data)
    h = select_bandwidths(data)
    assert "to reach from row to row" in h.source
    # The widening is by the joint distance, of which the action keeps its part: near 2, not exactly.
    assert 1.5 < nearest_held_out(table, torch.cat([h.states, h.actions])) < 3.0


def test_the_nearest_row_is_measured_in_bandwidths_and_not_within_the_episode() -> None:
    data = Transitions.from_arrays(
        [0.0, 1.0, 10.0, 11.0], [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 11.0, 12.0]
    )
    apart = replace(data, episodes=torch.tensor([0, 0, 1, 1]))
    h = torch.tensor([2.0, 1.0], dtype=torch.float64)
    # (1/2)² + 1² between neighbours; from 0 to 10 and from 1 to 11 it is five bandwidths, from 1 to 10
    # and back √(4.5² + 1).
    assert nearest_held_out(RegressionTable.from_data(data), h) == pytest.approx(math.sqrt(1.25))
    assert nearest_held_out(RegressionTable.from_data(apart), h) == pytest.approx(math.sqrt(4.5**2 + 1))


def test_where_the_bounds_contradict_each_other_the_spacing_wins() -> None:
    data = collect_grid(slow_pendulum(), GRID)
    h = select_bandwidths(data)
    floor = torch.tensor([0.3 * ANGLE_CHORD] * 2 + [0.3 * VELOCITY_GAP], dtype=torch.float64)
    assert bool((2 * step_length(data)[[0, 0, 1]] < floor).all())
    torch.testing.assert_close(h.states, floor, rtol=1e-12, atol=0)
    assert "held down" not in h.source


def test_a_state_that_mostly_rests_is_not_bounded_by_its_steps() -> None:
    data = sliding_block()
    assert float(step_length(data)[2]) == 0.0
    h = select_bandwidths(data).states
    assert bool(h.isfinite().all())
    assert float(h[2]) > 0.1


def test_next_states_have_the_bandwidths_of_the_states() -> None:
    h = select_bandwidths(collect_uniform(Pendulum(), 100, seed=0))
    assert torch.equal(h.next_states, h.states)


def test_a_state_that_decides_nothing_gets_a_wide_bandwidth() -> None:
    data = sliding_block()
    noise = torch.rand(200, 1, dtype=torch.float64, generator=generator(5, "noise"))
    states = torch.cat([data.states[:, :2], noise], dim=1)
    next_states = torch.cat([data.next_states[:, :2], data.next_states[:, :1]], dim=1)
    h = select_bandwidths(replace(data, states=states, next_states=next_states)).states
    # The three columns have one spread, .29.
    assert float(h[2]) > 3 * float(h[:2].max())


# What is refused.


@pytest.mark.parametrize(("column", "name"), [(0, "angle"), (1, "velocity")])
def test_a_constant_state_is_refused_by_name(column: int, name: str) -> None:
    data = collect_uniform(Pendulum(), 50, seed=0)
    states = data.states.clone()
    states[:, column] = 0.1
    with pytest.raises(DataError, match=rf"columns \['{name}'\] hold one value only.*leave them out"):
        select_bandwidths(replace(data, states=states))


def test_a_constant_action_is_refused_by_name() -> None:
    data = collect_uniform(Pendulum(), 50, seed=0)
    with pytest.raises(DataError, match=r"columns \['torque'\] hold one value only"):
        select_bandwidths(replace(data, actions=torch.full_like(data.actions, 0.1)))


@pytest.mark.parametrize("copies", [1, 5])
def test_a_single_transition_is_refused_however_often_it_is_repeated(copies: int) -> None:
    row = collect_uniform(Pendulum(), 1, seed=0).take(torch.zeros(copies, dtype=torch.int64))
    with pytest.raises(DataError):
        select_bandwidths(row)


# Spacing and steps.


def test_the_spacing_of_a_grid_is_its_own() -> None:
    states, actions = level_spacing(collect_grid(Pendulum(), GRID))
    assert states.tolist() == pytest.approx([ANGLE_CHORD, VELOCITY_GAP], rel=1e-12)
    assert actions.tolist() == [TORQUE_GAP]


def test_the_spacing_of_scattered_rows_binds_nothing() -> None:
    states, actions = level_spacing(collect_uniform(Pendulum(), 300, seed=0))
    # 300 rows over a box leave gaps of about a three-hundredth of it.
    assert bool((states < torch.tensor([2.0, 16.0]) / 100).all())
    assert float(actions) < 4 / 100


def test_repeated_levels_do_not_narrow_the_spacing() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, 1.0, 1.0, 0.0, 1 + 1e-12], dtype=torch.float64)
    states, actions = level_spacing(Transitions.from_arrays(x, 10 * x, x, x))
    assert states.tolist() == pytest.approx([1.0])
    assert actions.tolist() == pytest.approx([10.0])


@pytest.mark.parametrize("turn", [0.0, 77.0, -1000.0])
def test_the_spacing_of_an_angle_is_measured_round_the_circle(turn: float) -> None:
    degrees = torch.tensor([0.0, 450.0, 900.0, 1350.0, 360.0, -90.0], dtype=torch.float64) + turn
    data = Transitions.from_arrays(degrees, degrees, degrees, degrees, angles={"s0": 360.0})
    # Four places a quarter turn apart, a chord of √2.
    assert level_spacing(data)[0].tolist() == pytest.approx([math.sqrt(2)], rel=1e-12)


def test_a_step_is_the_median_and_an_angle_takes_the_short_way() -> None:
    states = torch.tensor([[350.0, 0.0], [10.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    next_states = torch.tensor([[50.0, 1.0], [-50.0, -5.0], [60.0, 100.0]], dtype=torch.float64)
    data = Transitions.from_arrays(
        states, [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], next_states, angles={"s0": 360.0}
    )
    # Sixty degrees each, a chord of 1.
    assert step_length(data).tolist() == pytest.approx([1.0, 5.0], rel=1e-12)


# The paper's recipe.


def density_column(column: torch.Tensor) -> float:
    """The recipe's bandwidth of one column, taken from the action's place."""
    other = torch.arange(len(column), dtype=torch.float64)
    return paper_bandwidths(Transitions.from_arrays(other, column, other, other)).actions.item()


def log_likelihood(column: torch.Tensor, h: float) -> float:
    """The leave-one-out log likelihood by definition; equal values are left out together."""
    x = column.numpy()
    density = [norm.pdf(x[x != value], loc=value, scale=h).sum() for value in x]
    return float(np.log(density).mean())


def test_the_density_bandwidth_of_normal_samples_is_near_the_known_optimum() -> None:
    n, columns = 500, 20
    samples = 3 * torch.randn(n, columns, dtype=torch.float64, generator=generator(0, "samples"))
    h = paper_bandwidths(Transitions.from_arrays(samples, samples[:, 0], samples[:, 0], samples)).states
    optimum = 3 * (4 / (3 * n)) ** 0.2  # of the mean integrated squared error
    # Likelihood cross-validation scatters by a fifth around it, a mean of 20 by a twentieth; three of those.
    assert float(h.mean()) == pytest.approx(optimum, rel=0.15)


@pytest.mark.parametrize("ties", [False, True])
def test_the_density_bandwidth_maximises_the_leave_one_out_likelihood(ties: bool) -> None:
    column = torch.randn(80, dtype=torch.float64, generator=generator(1, "samples"))
    if ties:
        column = (4 * column).round() / 4
    h = density_column(column)
    best = log_likelihood(column, h)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5):
        assert log_likelihood(column, factor * h) < best


def test_equal_values_do_not_collapse_the_density_bandwidth() -> None:
    column = torch.randn(80, dtype=torch.float64, generator=generator(1, "samples"))
    # Every value three times says nothing about the width; the search of one variable ends within 10⁻⁶.
    assert density_column(column.repeat(3)) == pytest.approx(density_column(column), rel=1e-5)
    h = paper_bandwidths(collect_grid(Pendulum(), GRID))
    assert float(h.states[2]) > VELOCITY_GAP / 2
    assert h.actions.item() > TORQUE_GAP / 4


@pytest.mark.parametrize(("scale", "shift"), [(1000.0, -20.0), (-0.01, 5.0)])
def test_the_density_bandwidth_has_the_unit_of_its_column(scale: float, shift: float) -> None:
    column = torch.randn(80, dtype=torch.float64, generator=generator(1, "samples"))
    # The search of one variable ends within 10⁻⁶.
    assert density_column(scale * column + shift) == pytest.approx(
        abs(scale) * density_column(column), rel=1e-5
    )


def test_the_papers_factors_multiply() -> None:
    data = collect_uniform(Pendulum(), 100, seed=0)
    plain = paper_bandwidths(data)
    scaled = paper_bandwidths(data, state_factor=[1.0, 2.0, 3.0], action_factor=20.0)
    torch.testing.assert_close(
        scaled.states, plain.states * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    )
    torch.testing.assert_close(scaled.actions, 20.0 * plain.actions)
    assert scaled.source == "the paper's recipe"


def test_a_column_of_one_value_has_no_density_bandwidth() -> None:
    # 1000 times .1 does not add up to 100: the deviation of a constant may come out as 10⁻¹⁷.
    for value, count in ((0.5, 10), (0.1, 1000)):
        with pytest.raises(DataError, match="holds one value only"):
            density_column(torch.full((count,), value, dtype=torch.float64))
