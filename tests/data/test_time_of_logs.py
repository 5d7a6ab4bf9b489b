"""Time of a log: the interval, gaps, repeated stamps, regular grids, and where the task starts."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.io_cases import bits
from nopg.data import Transitions
from nopg.data._repairs import FILLED, IRREGULAR, REPEATED
from nopg.data.io import from_dataframe
from nopg.errors import ArgumentError, DataError

ROLES: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r", "time": "t"}
METHODS = ["hold", "mean"]
NAN = float("nan")


def log(times: Any, **columns: Any) -> pd.DataFrame:
    """Rows 0, 1, 2 … whose state is 10, 11, 12 …, action 20, 21 … and reward 30, 31 …"""
    k = np.arange(len(times))
    return pd.DataFrame({"x": 10.0 + k, "u": 20.0 + k, "r": 30.0 + k, "t": times} | columns)


def read(frame: pd.DataFrame, **columns: Any) -> Transitions:
    return from_dataframe(frame, **ROLES | columns)


def states(data: Transitions) -> list[float]:
    return data.states[:, 0].tolist()


# The interval.


@pytest.mark.parametrize(
    ("times", "units", "seconds"),
    [
        ([0.0, 2.0, 4.0], {}, 2.0),
        ([0.0, 2.0, 4.0], {"time": "ms"}, 0.002),
        ([0.0, 2.0, 4.0], {"t": "min"}, 120.0),
        ([0.0, 2.0, 4.0], {"time": "h"}, 7200.0),
        (pd.date_range("2024-01-01", periods=3, freq="15min"), {}, 900.0),
        (pd.date_range("2024-01-01", periods=3, freq="15min"), {"time": "ms"}, 900.0),  # dates have none
        ([1.7e18, 1.7e18 + 1e9, 1.7e18 + 2e9], {"time": "ns"}, 1.0),
        ([45382.0, 45382.25, 45382.5], {"time": "d"}, 21_600.0),
        ([1.7e9, 1.7e9 + 0.1, 1.7e9 + 0.2], {}, 0.1),
    ],
)
def test_the_interval_is_in_seconds_whatever_the_unit_of_the_time(
    times: Any, units: dict[str, str], seconds: float
) -> None:
    data = read(log(times), units=units)
    assert data.schema.interval == seconds
    assert data.schema.units == {}


def test_an_unknown_unit_of_time_is_refused() -> None:
    with pytest.raises(
        DataError, match="the unit of the time is 'weeks'; give one of ns, us, ms, s, min, h, d"
    ):
        read(log([0.0, 1.0, 2.0]), units={"time": "weeks"})


def test_whole_numbers_are_dates_where_a_format_says_so() -> None:
    for days in ([20240331, 20240401, 20240402], [20240331.0, 20240401.0, 20240402.0]):
        assert read(log(days), time_format="%Y%m%d").schema.interval == 86_400.0
        with pytest.raises(DataError, match="at row 0, which looks like a date; say how to read it"):
            read(log(days))


def test_irregular_steps_are_used_as_they_are_and_counted() -> None:
    times = [0, 1, 2, 3, 4, 5.5, 6.5, 7.5]
    data = read(log(times))
    assert len(data) == 7
    assert data.repairs.counts == {IRREGULAR: 1}
    assert not read(log([0, 1, 2, 3.05, 4, 5])).repairs.counts
    assert IRREGULAR not in read(log(times), resample="hold").repairs.counts


# Repeated time stamps.


def test_of_rows_with_one_time_stamp_the_last_known_values_count() -> None:
    frame = log([0, 1, 1, 2, 3], x=[10, 11, 12, 13, 14], u=[20, 21, NAN, 23, 24])
    data = read(frame)
    assert data.states[:, 0].tolist() == [10, 12, 13]
    assert data.actions[:, 0].tolist() == [20, 21, 23]
    assert data.repairs.counts[REPEATED] == 1


def test_time_stamps_that_are_too_coarse_are_refused() -> None:
    with pytest.raises(DataError, match=r"50 % of the rows have the time stamp of another row but other"):
        read(log([0, 0, 1, 1, 2, 2]))


# Regular grids.


@st.composite
def regular_logs(draw: st.DrawFn) -> pd.DataFrame:
    lengths = draw(st.lists(st.integers(3, 12), min_size=1, max_size=4))
    step = draw(st.sampled_from([0.1, 1 / 3, 1.0, 60.0, 7200.0]))
    start = draw(st.sampled_from([0.0, 1.7e9]))
    n = sum(lengths)
    numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 9))  # columns that vary less are refused
    columns = {name: draw(st.lists(numbers, min_size=n, max_size=n)) for name in ("x", "u", "r")}
    times = np.concatenate([start + 1e4 * k * step + step * np.arange(m) for k, m in enumerate(lengths)])
    return pd.DataFrame(
        columns | {"t": times, "terminated": draw(st.lists(st.booleans(), min_size=n, max_size=n))}
    )


@pytest.mark.parametrize("method", METHODS)
@given(frame=regular_logs())
def test_resampling_a_regular_log_changes_no_bit(method: str, frame: pd.DataFrame) -> None:
    plain, resampled = read(frame), read(frame, resample=method)
    for name in ("states", "actions", "rewards", "next_states", "terminated", "truncated", "episodes"):
        assert torch.equal(bits(getattr(plain, name)), bits(getattr(resampled, name))), name
    assert torch.equal(plain.starts, resampled.starts)
    assert plain.schema == resampled.schema


def test_a_grid_by_hold_takes_the_last_value_and_repeats_it_where_no_row_is() -> None:
    data = read(log([0.0, 1.0, 1.6, 4.0, 5.0]), resample="hold", interval=1.0)
    assert states(data) == [10, 11, 12, 12, 13]
    assert data.next_states[-1, 0] == 14
    assert data.repairs.counts == {FILLED: 1}
    assert "resampled to 1 s (hold): 5 rows became 6" in data.repairs.notes


def test_a_grid_by_mean_takes_states_from_before_and_actions_from_after() -> None:
    data = read(log(np.arange(9.0)), resample="mean", interval=4.0)
    # Times 0, 4, 8: states of row 0 and the means of rows 1 to 4 and 5 to 8; actions of rows 0-3 and 4-7.
    assert states(data) == [10.0, 12.5]
    assert data.next_states[:, 0].tolist() == [12.5, 16.5]
    assert data.actions[:, 0].tolist() == [21.5, 25.5]
    assert data.rewards.tolist() == [31.5, 35.5]
    assert data.schema.interval == 4.0


def test_angles_are_averaged_the_short_way_round() -> None:
    frame = log(np.arange(5.0), x=[0.0, 359.0, 1.0, 2.0, 358.0])
    data = read(frame, resample="mean", interval=2.0, angles={"x": 360.0})
    assert data.states[:, 0].tolist() == [0.0, 0.0]
    assert data.next_states[-1, 0] == 360.0 or data.next_states[-1, 0] == 0.0


def test_an_end_between_two_times_of_the_grid_is_kept() -> None:
    data = read(log(np.arange(8.0), terminated=[0, 0, 0, 0, 0, 1, 0, 0]), resample="hold", interval=2.0)
    assert states(data) == [10, 12, 14]
    assert data.terminated.tolist() == [False, False, True]


def test_a_slow_column_is_held_between_its_values() -> None:
    slow = np.where(np.arange(41) % 10 == 0, np.arange(41.0), NAN)
    frame = log(np.arange(41.0), slow=slow)
    for method in (None, "hold"):
        data = read(frame, states=["x", "slow"], resample=method)
        assert data.states[:, 1].tolist() == (np.arange(40) // 10 * 10.0).tolist()
        assert data.repairs.counts["slow: missing, held"] == 36
        assert data.schema.hold == {"slow": 41}
    seldom = read(frame, states=["x", "slow"], resample="hold", interval=5.0)
    assert seldom.states[:, 1].tolist() == [0.0, 0.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0]


def test_what_cannot_be_resampled_is_refused() -> None:
    with pytest.raises(ArgumentError, match="without a time column"):
        read(log([0.0, 1.0, 2.0]), time=None, resample="hold")
    with pytest.raises(ArgumentError, match="next states of their own"):
        read(log([0.0, 1.0, 2.0], next_x=0.0), resample="hold")
    with pytest.raises(ArgumentError, match="resample is 'cubic'"):
        read(log([0.0, 1.0, 2.0]), resample="cubic")
    with pytest.raises(ArgumentError, match="weighted rows cannot be resampled"):
        read(log([0.0, 1.0, 2.0], w=1.0), resample="hold", weight="w")


# Starts.


def batches(count: int = 42, length: int = 20) -> pd.DataFrame:
    """Batches with a gap in time, or missing values, in two of three."""
    rng = np.random.default_rng(0)
    parts = []
    for number in range(count):
        part = log(1e4 * number + np.arange(float(length)), batch=number)
        part["x"] = rng.normal(size=length)
        cut = int(rng.integers(8, 12))
        if number % 3 == 1:
            part = part.drop(index=range(cut, cut + 7))
        if number % 3 == 2:
            part.loc[cut : cut + 7, "x"] = NAN
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("resample", [None, "hold"])
@pytest.mark.parametrize("logged", [False, True])
def test_forty_two_batches_with_gaps_remain_forty_two_starts(resample: str | None, logged: bool) -> None:
    frame = batches()
    first = frame.groupby("batch")["x"].first()
    if logged:
        if resample:
            return
        frame["next_x"] = frame["x"]
        frame = frame.sample(frac=1.0, random_state=0).sort_values("t", kind="stable")
    data = read(frame, episode="batch", resample=resample, missing="drop" if logged else None)
    assert data.episodes is not None
    assert len(data.episodes.unique()) >= 42 + 14
    assert data.starts[:, 0].tolist() == first.tolist()


def test_a_lost_beginning_is_no_start_unless_it_is_short() -> None:
    times = np.arange(30.0)
    x = 10.0 + np.arange(30)
    frame = log(times, x=np.where((times % 15) < 3, NAN, x), batch=np.arange(30) // 15)
    assert read(frame, episode="batch").starts[:, 0].tolist() == [13, 28]
    long = frame.assign(x=np.where((times >= 15) & (times < 25), NAN, x))
    assert read(long, episode="batch").starts[:, 0].tolist() == [10]


def test_one_long_recording_may_be_taken_over_in_any_row() -> None:
    cut = read(log([0, 1, 2, 3, 50, 51, 52, 53]))
    assert torch.equal(cut.starts, cut.states)
    assert cut.repairs.notes == (
        "one long recording: the task may start in any row, unless its starts are set to episodes",
    )
    late = cut.derive(lags={"u": 1})
    assert torch.equal(late.starts, late.states)  # with what was applied before each row
    assert late.starts[:, 1].tolist() == cut.actions[[0, 1, 3, 4], 0].tolist()
    batches = read(log([0, 1, 2, 3, 4, 5], batch=[0] * 6), episode="batch")
    assert batches.start_kind == "rows"  # a single batch without an end is a recording too
    assert not batches.repairs


def test_a_column_marks_the_starts() -> None:
    frame = log([0, 1, 2, 3, 4], goal_set=[0, 1, 0, 1, 0])
    data = read(frame, begins="goal_set")
    assert data.start_rows is not None
    assert data.start_rows.tolist() == [1, 3]
    assert read(frame, begins="goal_set", starts="rows").start_kind == "rows"
    assert read(frame, begins="goal_set", starts="episodes").starts[:, 0].tolist() == [10]
    mean = read(frame, begins="goal_set", resample="hold", interval=2.0)
    assert mean.begins is not None
    assert mean.begins.tolist() == [True, True]


# Exogenous columns.


def test_exogenous_columns_are_states_and_declared_in_the_schema() -> None:
    frame = log([0, 1, 2, 3], goal=1.0, sun=0.0)
    data = read(frame, exogenous=["goal"])
    assert data.schema.states == ("x", "goal")
    assert data.schema.exogenous == {"goal": "log"}
    data = read(frame, states=["sun", "x"], exogenous={"sun": "hold", "goal": "log"})
    assert data.schema.states == ("sun", "x", "goal")
    assert data.schema.exogenous == {"sun": "hold", "goal": "log"}
    with pytest.raises(DataError, match="'freeze' in rollouts"):
        read(frame, exogenous={"sun": "freeze"})
