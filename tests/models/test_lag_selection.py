"""Delays and lags chosen from a log: exact cases, and what makes them unsure."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from nopg import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.models import select_lags
from nopg.models._delays import LagTable, excess, longest_delays, nested_coefficients
from nopg.models._lag_selection import as_good

Array = npt.NDArray[np.float64]


def log(levels: Array, actions: Array, **named: object) -> Transitions:
    return Transitions.from_arrays(
        levels[:-1],
        actions,
        np.zeros(len(actions)),
        levels[1:],
        state_names=["level"],
        action_names=["valve"],
        **named,  # type: ignore[arg-type]
    )


def tank(
    delay: int, rows: int = 500, noise: float = 0.0, law: Callable[[float], float] | None = None
) -> Transitions:
    """x′ = 0.9 x + 0.1 u(t − delay), by random actions or a law of the level."""
    rng = np.random.default_rng(0)
    valve, level = rng.uniform(-1.0, 1.0, rows), np.zeros(rows + 1)
    for t in range(rows):
        valve[t] = valve[t] if law is None else law(level[t])
        late = valve[t - delay] if t >= delay else 0.0
        level[t + 1] = 0.9 * level[t] + 0.1 * late + noise * rng.normal()
    return log(level, valve)


@pytest.mark.parametrize("delay", [1, 3, 12])
def test_an_exact_delay_is_found_and_needs_as_many_lags(delay: int) -> None:
    found = select_lags(tank(delay))
    assert found.delays == {"valve": delay}
    assert found.lags == {"valve": delay}
    assert found.sure
    assert found.errors["chosen"] < 1e-3 < found.errors["no lags"]


def test_without_a_delay_no_lags_are_chosen() -> None:
    found = select_lags(tank(0, noise=0.02))
    assert (found.lags, found.delays, found.sure) == ({}, {"valve": 0}, True)
    assert str(found) == "valve acts at once (sure); level: no earlier values needed"


def test_a_constant_action_is_unsure_and_says_so() -> None:
    found = select_lags(tank(0, noise=0.1, law=lambda _: 0.5))
    assert not found.sure
    assert found.delays == {}
    assert "valve: constant in the log" in found.reasons[0]


def test_an_action_that_follows_the_level_exactly_is_unsure() -> None:
    found = select_lags(tank(2, noise=0.1, law=lambda level: -level))
    assert not found.sure
    assert any("follows the columns" in reason for reason in found.reasons)


def test_feedback_with_a_test_signal_does_not_hide_the_delay() -> None:
    rng = np.random.default_rng(1)
    found = select_lags(tank(4, rows=1_000, noise=0.02, law=lambda level: -2.0 * level + 0.3 * rng.normal()))
    assert found.delays == {"valve": 4}
    assert found.sure


def test_a_delay_at_the_end_of_the_search_is_unsure() -> None:
    found = select_lags(tank(5), most=5)
    assert found.delays == {"valve": 5}
    assert found.reasons == ("valve: at the end of the searched range; give a larger most",)


def test_a_hidden_velocity_needs_one_earlier_position() -> None:
    # x″ = u by Euler steps: x′ = 2x − x₋₁ + u₋₁, so that one earlier value of both is exact.
    rng = np.random.default_rng(0)
    valve = rng.uniform(-1.0, 1.0, 500)
    speed = np.append(0.0, 0.1 * np.cumsum(valve))
    level = np.append(0.0, np.cumsum(0.1 * speed))[:501]
    found = select_lags(log(level, valve))
    assert found.lags == {"level": 1, "valve": 1}
    assert found.delays == {"valve": 1}


def test_an_angle_that_wraps_is_as_good_as_one_that_does_not() -> None:
    rng = np.random.default_rng(0)
    torque, angle, speed = rng.uniform(-1.0, 1.0, 600), np.zeros(601), 0.3
    for t in range(600):
        speed = 0.98 * speed + 0.05 * (torque[t - 2] if t >= 2 else 0.0) + 0.006
        angle[t + 1] = angle[t] + speed
    wrapped = (angle + math.pi) % (2 * math.pi) - math.pi
    whole, cut = (select_lags(log(one, torque, angles=["level"])) for one in (angle, wrapped))
    assert whole.delays == cut.delays == {"valve": 2}
    assert whole.lags == cut.lags
    assert cut.lags["level"] >= 1


def test_episodes_do_not_run_into_each_other() -> None:
    data = tank(3, rows=2_000)
    found = select_lags(
        Transitions.from_arrays(
            data.states, data.actions, data.rewards, data.next_states, episodes=np.arange(2_000) // 40
        )
    )
    table = LagTable.of(Transitions.from_arrays([0.0, 1.0, 5.0], [1.0] * 3, [0.0] * 3, [1.0, 2.0, 6.0]))
    assert (table.before.tolist(), table.after.tolist()) == ([0, 1, 0], [1, 0, 0])
    assert found.delays == {"a0": 3}


def test_short_runs_are_unsure_beyond_what_they_show() -> None:
    data = tank(1, rows=2_000, noise=0.01)
    few = Transitions.from_arrays(
        data.states, data.actions, data.rewards, data.next_states, episodes=np.arange(2_000) // 8
    )
    found = select_lags(few)
    assert found.delays == {"a0": 1}
    assert found.reasons == ("runs: in runs of 8 rows only delays up to 2 steps were searched",)


def test_unconnected_rows_are_refused() -> None:
    data = tank(1)
    with pytest.raises(DataError, match="0 rows have the 2 rows before them"):
        select_lags(data.take(np.random.default_rng(0).permutation(500)))  # type: ignore[arg-type]


def test_a_log_in_which_nothing_moves_is_refused() -> None:
    with pytest.raises(DataError, match="ever moves"):
        select_lags(log(np.ones(101), np.linspace(0.0, 1.0, 100)))


@pytest.mark.parametrize("most", [0, True, 2.5])
def test_a_range_without_steps_is_refused(most: object) -> None:
    with pytest.raises(ArgumentError, match="most is"):
        select_lags(tank(1), most=most)  # type: ignore[arg-type]


def test_two_actions_have_their_own_delays() -> None:
    rng = np.random.default_rng(0)
    actions, level = rng.uniform(-1.0, 1.0, (800, 2)), np.zeros(801)
    for t in range(800):
        late = actions[max(t - 2, 0), 0] - 0.5 * actions[max(t - 7, 0), 1]
        level[t + 1] = 0.9 * level[t] + 0.1 * late + 0.01 * rng.normal()
    data = Transitions.from_arrays(level[:-1], actions, np.zeros(800), level[1:], action_names=["gas", "air"])
    assert select_lags(data).delays == {"gas": 2, "air": 7}


def test_nested_coefficients_are_those_of_separate_fits() -> None:
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(200, 4)), rng.normal(size=(200, 2))
    nested, left = nested_coefficients(Z.T @ Z, Z.T @ Y, 200, 2)
    for drop, found in enumerate(nested):
        part = Z[:, : 4 - drop]
        assert np.allclose(found, np.linalg.solve(part.T @ part + 200e-6 * np.eye(4 - drop), part.T @ Y))
    rest = Z[:, 3] - Z[:, :3] @ np.linalg.lstsq(Z[:, :3], Z[:, 3], rcond=None)[0]
    assert left == pytest.approx(rest @ rest / 200, rel=1e-4)


def test_the_excess_of_the_best_is_zero_and_of_others_their_distance() -> None:
    worse, error = excess(np.stack([np.full(80, 2.0), np.full(80, 0.5)]))
    assert worse.tolist() == [1.5, 0.0]
    assert error.tolist() == [1e-6, 1e-6]


def test_delays_within_1_2_and_3_5_standard_errors_are_the_low_the_chosen_and_the_high_one() -> None:
    worse = np.array([0.0, 0.95, 1.05, 1.95, 2.05, 3.45, 3.55])
    assert longest_delays(worse, np.ones(7)) == (3, 1, 5)


def test_fewer_lags_may_have_a_tenth_more_error_or_one_standard_error_or_a_hundredth_of_a_spread() -> None:
    even = np.ones(400)
    assert as_good(1.2 * even, even)  # 1.1² = 1.21
    assert not as_good(1.22 * even, even)
    assert as_good(0.9e-4 * even, 0.0 * even)
    assert not as_good(1.1e-4 * even, 0.0 * even)
    # Of 40 blocks with the excess .5 ± d√39 the standard error is d.
    for deviation, noisy in ((0.52, True), (0.48, False)):
        apart = 0.5 + deviation * 39**0.5 * np.repeat([1.0, -1.0], 200)
        assert as_good(apart, 0.0 * even) is noisy
