"""The constants of the models, each by a small case that it decides."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from models.test_memory import residuals_of
from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.errors import DataError
from nopg.models._chart_selection import _best, _Search
from nopg.models._charts import Charts
from nopg.models._delays import Delay, DelaySearch, LagTable, _varies, nested_coefficients
from nopg.models._excitation import Excitation, fit_variances, noise_share
from nopg.models._known_columns import ExogenousMoves, KnownColumns
from nopg.models._lag_selection import Orders, OrderSearch, _delay_search, _doubts, _doubts_of, select_lags
from nopg.models._limits import logged_turns
from nopg.models._noise import Noise, SteadyFilter, _steady_filter
from nopg.models._one_step import Prediction
from nopg.models._reach import _inner_and_outer, _upper_sum
from nopg.models._regression_rows import InputSpace, RegressionRows
from nopg.models._residuals import _Past, _step_of, memory_of
from nopg.models._sums import ChartShape

ONE = np.ones((1, 1))


def rows_of(count: int) -> RegressionRows:
    """Return rows of one random state and action."""
    s, a = np.random.default_rng(0).normal(size=(2, count, 1))
    return RegressionRows.of(Transitions.from_arrays(s, a, -np.square(s[:, 0]), 0.9 * s + 0.1 * a))


# Residuals


def test_residuals_of_rows_before_count_by_powers_of_seven_tenths_up_to_the_twelfth() -> None:
    past = _Past(np.ones((19, 1)), np.zeros((20, 1)), np.arange(20), np.arange(1, 20))
    expected = np.concatenate([[0.0], 0.7 ** np.arange(12), np.zeros(7)])
    np.testing.assert_allclose(past._before(np.eye(20)[0], 1), expected)


def test_a_residual_counts_up_to_three_deviations() -> None:
    errors, actions = np.where(np.arange(2_001) % 2, 1.0, -1.0), np.zeros(2_001)
    errors[1001], actions[1000] = 4.0, 1.0
    [found] = [one for one in memory_of(residuals_of(errors, actions)) if one.source == "action before"]
    # 3² of about 2 000 is explained by that row alone, of which 1 is expected by chance.
    assert found.share == pytest.approx(math.sqrt(8 / 2_000), rel=0.05)


@pytest.mark.parametrize(("size", "kept"), [(1.5e-6, 1), (0.7e-6, 0)])
def test_a_column_tells_nothing_new_below_a_millionth_of_its_size(size: float, kept: int) -> None:
    rng = np.random.default_rng(0)
    present = np.stack([np.ones(500), np.where(rng.normal(size=500) > 0, 1.0, -1.0)], axis=1)
    column = present[:, 1] + size * rng.normal(size=500)
    past = _Past(present, np.zeros((501, 1)), np.arange(501), np.arange(1, 501))
    assert past._beyond(column[:, None]).shape[1] == kept


@pytest.mark.parametrize(("gap", "step"), [(1.5e-6, 0.5), (0.7e-6, 1.0)])
def test_values_within_a_millionth_of_their_range_are_one(gap: float, step: float) -> None:
    assert _step_of(np.repeat([0.0, 1.0, 1.0 + gap], 5)) == pytest.approx(step, abs=1e-3)


# Noise


def noise_of(residuals: FloatArray, *, memory: float = 1.0, spread: float = 1.0) -> Noise:
    """Return the noise of a run of residuals (n,) around predictions that expect a noise of 1."""
    n = len(residuals)
    walk = np.concatenate([[0.0], np.cumsum(residuals)])[:, None]  # no step is foreseen
    data = Transitions.from_arrays(walk[:-1], 0 * walk[1:], np.zeros(n), walk[1:], episodes=np.zeros(n, int))

    def predict(states: torch.Tensor, actions: torch.Tensor) -> Prediction:
        zero, slope = torch.zeros(len(states), dtype=torch.float64), torch.zeros(len(states), 1, 2).double()
        slope[:, 0, 0] = memory - 1.0
        one = zero[:, None] + 1.0
        return Prediction(zero[:, None], zero, one, zero, slope, slope[:, 0])

    return Noise.of(data, predict, torch.tensor([spread], dtype=torch.float64), KnownColumns.of(data))


def rare(count: int, size: float) -> FloatArray:
    """Return 1 000 residuals of size 1, but for a few larger ones."""
    signs = np.where(np.arange(1_000) % 4 < 2, 1.0, -1.0)
    signs[10 : 10 + 20 * count : 20] *= size
    return signs


# The deviation is 1.4826 times the median of the sizes, 1.
@pytest.mark.parametrize(
    ("count", "size", "jumps"), [(6, 7.6, ("s0",)), (6, 7.2, ()), (5, 7.6, ()), (4, 20.0, ())]
)
def test_more_than_five_in_a_thousand_beyond_five_deviations_are_jumps(
    count: int, size: float, jumps: tuple[str, ...]
) -> None:
    assert noise_of(rare(count, size)).jumps == jumps


@pytest.mark.parametrize(("share", "jumps"), [(0.011, ("s0",)), (0.009, ())])
def test_noise_below_a_hundredth_of_the_variance_is_no_jump(share: float, jumps: tuple[str, ...]) -> None:
    residuals = rare(6, 7.6)
    assert noise_of(residuals, spread=math.sqrt(np.square(residuals).mean() / share)).jumps == jumps


def test_residuals_are_cut_at_three_deviations() -> None:
    found = noise_of(rare(5, 8.0), memory=0.0).disturbances
    assert found.item() == pytest.approx((995 + 5 * (3 * 1.4826) ** 2) / 1_000)


@pytest.mark.parametrize(("rows", "seen"), [(30, False), (31, True)])
def test_sensors_are_judged_by_thirty_pairs_of_rows(rows: int, *, seen: bool) -> None:
    assert (noise_of((-1.0) ** np.arange(rows)).sensors.item() > 0) is seen


@pytest.mark.parametrize(("memory", "seen"), [(0.21, True), (0.19, False)])
def test_a_column_that_forgets_four_fifths_shows_no_sensor(memory: float, *, seen: bool) -> None:
    assert (noise_of((-1.0) ** np.arange(200), memory=memory).sensors.item() > 0) is seen


@pytest.mark.parametrize(("changes", "seen"), [(66, True), (64, False)])
def test_sensors_are_seen_beyond_three_deviations_of_a_correlation(changes: int, *, seen: bool) -> None:
    # The mean product of 100 pairs of signs is −.32 or −.28; its deviation by chance is .1.
    turns = np.ones(101)
    turns[1 + np.linspace(0, 99, changes).astype(int)] = -1.0
    signs: FloatArray = np.cumprod(turns)
    assert (noise_of(signs).sensors.item() > 0) is seen


def test_disturbances_are_a_hundredth_of_what_sensors_add_at_least() -> None:
    none = np.zeros((1, 1))
    _, found = _steady_filter(ONE, none, np.array([2.0]), np.ones(1), np.ones(1))
    before = (0.02 + math.sqrt(0.02**2 + 4 * 0.02)) / 2  # P = P − P²/(P + R) + Q with Q = .02, R = 1
    assert found.ahead.item() == pytest.approx(before + 1.0, rel=1e-6)


def test_variances_of_nothing_count_as_one_in_ten_to_the_ninth() -> None:
    found = SteadyFilter.of(ONE, np.zeros((1, 1)), np.zeros((1, 1))).ahead
    assert found.item() == pytest.approx((3 + math.sqrt(5)) / 2 * 1e-9, rel=1e-6)


def test_a_filter_looks_back_over_forty_steps() -> None:
    one = torch.ones(60, 1, dtype=torch.float64)
    error, _ = SteadyFilter(ONE, ONE).errors(one, one[:1], (torch.arange(60) > 0).double())
    assert error.max().item() == 40.0


# Delays


def recording(rows: int = 200) -> Transitions:
    s, a = np.random.default_rng(0).normal(size=(2, rows, 1))
    return Transitions.from_arrays(s, a, np.zeros(rows), np.roll(s, -1, 0), episodes=np.zeros(rows, int))


def table(rows: int = 200) -> LagTable:
    return LagTable.of(recording(rows))


def test_three_earlier_values_enter_one_by_one_and_those_before_as_means() -> None:
    # 1; the level now, three values before it, the means over 4 to 7 and 8 to 12; thirteen actions.
    assert DelaySearch(table(), 8, 4).width == 1 + 1 + 3 + 2 + 13


def test_the_ridge_of_lags_is_a_millionth_of_the_rows() -> None:
    [[fit], *_], _ = nested_coefficients(200.0 * ONE, 200.0 * ONE, 200)
    assert 1.0 - fit.item() == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(("range_", "varies"), [(1.5e-12, True), (0.7e-12, False)])
def test_a_column_varies_by_more_than_rounding(range_: float, *, varies: bool) -> None:
    assert _varies(np.array([0.0, range_]), 1.0) is varies


def test_delays_up_to_thirty_steps_are_searched_with_six_actions_beyond() -> None:
    search = _delay_search(table(1_000), None)
    assert (search.most, search.tail) == (30, 6)


def test_the_default_search_leaves_five_rows_for_each_input() -> None:
    # With 25 rows before them 175 rows have 1 + 7 + 26 inputs; with 26, 174 rows have 35.
    assert _delay_search(table(200), None).most == 25 - 6


@pytest.mark.parametrize(("most", "unsure"), [(9, True), (10, False)])
def test_a_search_of_fewer_than_ten_steps_is_a_doubt(most: int, *, unsure: bool) -> None:
    assert ("runs" in _doubts((), {}, DelaySearch(table(), most, 6), default=True)) is unsure


@pytest.mark.parametrize(("share", "doubts"), [(0.9e-3, 1), (1.1e-3, 0)])
def test_an_action_follows_the_columns_if_a_thousandth_of_it_is_its_own(share: float, doubts: int) -> None:
    assert len(_doubts_of(Delay(3, 3, 3, share), 30)) == doubts


def test_up_to_four_lags_and_further_actions_are_tried_by_rollouts_of_ten_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = list[tuple[int, ...]]()

    def choose(search: OrderSearch, shortest: Orders, own: int, window: int) -> Orders:
        tried.append((search.horizon, own, window))
        return shortest

    monkeypatch.setattr(OrderSearch, "choose", choose)
    select_lags(recording(), most=8)
    assert tried == [(10, 4, 4)]


def test_delays_take_two_rows_for_each_input() -> None:
    # 44 rows for 1 + 6 + 15 inputs, with 14 rows before them and 9 after.
    select_lags(recording(67), most=8)
    with pytest.raises(DataError, match="43 rows"):
        select_lags(recording(66), most=8)


# Angles


@pytest.mark.parametrize(("beyond", "kept"), [(0.015, False), (0.007, True)])
def test_an_angle_that_exceeds_its_turn_by_a_hundredth_counts_on(beyond: float, *, kept: bool) -> None:
    angle = np.array([[0.0], [1.0 + beyond]])
    data = Transitions.from_arrays(angle, 0 * angle, [0.0, 0.0], angle, angles={"s0": 1.0})
    assert (logged_turns(data)[1].item() == 1.0) is kept


# Exogenous columns


@pytest.mark.parametrize(("rows", "width"), [(1_000, 200), (200, 100), (60, 60)])
def test_a_value_moves_as_a_fifth_of_the_rows_around_or_a_hundred(rows: int, width: int) -> None:
    numbers = np.arange(float(rows))
    drawn = ExogenousMoves.of(numbers, numbers).draw(np.full(2, rows / 2), np.array([-40.0, 40.0]))
    assert (drawn[1] - drawn[0] + 1).item() == width


@pytest.mark.parametrize(("apart", "taken"), [(0.7e-9, 600.0), (1.5e-9, 599.0)])
def test_values_within_a_billionth_of_their_range_move_alike(apart: float, taken: float) -> None:
    numbers = np.arange(1_000.0)
    values = numbers.copy()
    values[600] = 599.0 + 999.0 * apart
    assert ExogenousMoves.of(values, numbers).draw(np.array([500.0]), np.array([40.0])).item() == taken


# Excitation


def test_a_quarter_of_the_variance_of_a_target_counts_as_one_radius() -> None:
    excitation, noise = Excitation.of(rows_of(50)), torch.tensor([0.3], dtype=torch.float64)
    x = np.array([[3.0], [1.0]])
    [found], whole = fit_variances({1: excitation}, [(1, noise)]), excitation.uncertainty(noise)
    assert found.at(x, slopes=False)[0] == pytest.approx(
        4.0 * excitation.variance(whole).at(x, slopes=False)[0]
    )


def test_no_fit_is_finer_than_a_thousandth_of_the_spread() -> None:
    assert noise_share(torch.zeros(1).double(), torch.ones(1).double()).item() == pytest.approx(1e-6)


def test_a_slope_that_the_log_does_not_show_may_be_ten_spreads_per_unit() -> None:
    space = InputSpace(torch.ones(1).double(), torch.zeros(1).double(), torch.zeros(1).double())
    nothing = Excitation(
        space, torch.ones(1, dtype=torch.bool), 1, torch.diag(torch.tensor([1.0, 0.0])).double(), 1
    )
    assert nothing.uncertainty(torch.ones(1).double()).item() == pytest.approx(100.0)


# Charts


def shape(degree: int = 1, *, ridge: float = 1e-4, neighbors: int = 20, global_degree: int = 1) -> ChartShape:
    used = torch.ones(2, dtype=torch.bool)
    return ChartShape(used, used.double(), degree, neighbors, ridge, global_degree)


EVERYWHERE = shape(ridge=math.inf, neighbors=0)


@pytest.mark.parametrize(
    ("simple", "error", "best"),
    [
        (shape(), 1.029, 1.0),
        (shape(), 1.031, None),
        (EVERYWHERE, 0.95e-6, 1e-9),
        (EVERYWHERE, 1.2e-6, None),
        (shape(), 0.95e-10, 1e-15),
        (shape(), 1.2e-10, None),
    ],
)
def test_errors_within_three_per_cent_or_below_a_threshold_are_equal(
    simple: ChartShape, error: float, best: float | None
) -> None:
    other = shape(2)
    least = best if best is not None else min(1.0, error / 1e3) if error < 1 else 1.0
    assert (_best({simple: [error], other: [least]}, 0) is simple) is (best is not None)


@pytest.mark.parametrize(("worse", "mostly"), [(61, True), (59, False)])
def test_a_shape_is_worse_beyond_two_deviations_of_a_sign_test(worse: int, *, mostly: bool) -> None:
    search, one, other = _Search(rows_of(20)), shape(), shape(2)
    signs = torch.where(torch.arange(100) < worse, 2.0, 0.0).double()[:, None]
    search._by_row = {one: signs, other: torch.ones(100, 1).double()}
    assert search.mostly_worse(one, other, 0) is mostly


def test_noise_is_uneven_from_a_rank_correlation_of_three_tenths_on() -> None:
    search = _Search(rows_of(20))
    search._uneven = {EVERYWHERE: [0.31, 0.29]}
    assert [search.uneven(EVERYWHERE, target) for target in (0, 1)] == [True, False]


@pytest.mark.parametrize(("variance", "visible"), [(1.2e-3, True), (0.8e-3, False)])
def test_noise_below_a_thousandth_of_the_variance_is_not_uneven(variance: float, *, visible: bool) -> None:
    search = _Search(rows_of(20))
    search._scale = torch.ones(1).double()
    own = torch.linspace(0.1, 1.0, 50).double()[:, None]
    own *= math.sqrt(variance / float(own.square().mean()))
    # Of 60 neighbours the first 30 count.
    around = torch.cat([own[:, None].expand(-1, 30, -1), 100.0 * own.flip(0)[:, None].expand(-1, 30, -1)], 1)
    assert (search._unevenness(around, own).item() > 0.9) is visible


def test_charts_reach_a_tenth_beyond_their_rows_and_hold_twice_as_many_for_parts() -> None:
    rows = rows_of(400)
    charts = Charts(rows, [0], shape(neighbors=100), Excitation.of(rows))
    assert charts.places is not None
    assert charts.sums is not None
    assert len(charts.centers) == 120  # thirty within the radius of each
    torch.testing.assert_close(charts.places.radii[1], math.sqrt(2.0) * charts.places.radii[0])
    extent = charts.sums.high - charts.sums.low
    torch.testing.assert_close(charts.high - charts.low, 1.2 * extent)


@pytest.mark.parametrize(("groups", "narrow"), [(8, True), (7, False)])
def test_more_than_three_quarters_of_the_groups_use_the_charts_of_all(groups: int, *, narrow: bool) -> None:
    rows = rows_of(400)
    charts = Charts(rows, [0], shape(neighbors=100), Excitation.of(rows))
    assert charts.filled_sums is not None
    charts.filled_sums.moments[1] = math.nan
    _, local = charts.coefficients(torch.arange(10)[None] < groups)
    assert local is not None
    assert bool(local.isfinite().all()) is narrow


# Reach


def test_three_tenths_of_at_least_thirty_rows_are_outer_ones() -> None:
    used = torch.ones(2, dtype=torch.bool)
    assert _inner_and_outer(rows_of(29), used) is None
    split = _inner_and_outer(rows_of(30), used)
    assert split is not None
    assert [len(part) for part in split] == [21, 9]


def test_the_upper_limit_of_a_sum_is_two_standard_errors_above_it() -> None:
    # The sums of two groups are 1 and 3, each 1 from their mean.
    assert _upper_sum(np.array([1.0, 3.0]), torch.tensor([0, 1])) == pytest.approx(4.0 + 2.0 * 2.0)
