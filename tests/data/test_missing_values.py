"""Missing values of a log: the rule of every column, its counts, and what a controller holds."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nopg.data import Transitions
from nopg.data._checks import Source
from nopg.data._repairs import LEFT_OUT
from nopg.data.io import from_dataframe
from nopg.data.io._clock import Recording
from nopg.data.io._transitions import repair_missing, rules_of
from nopg.errors import ArgumentError, DataError

ROLES: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r"}
NAN = float("nan")


def log(x: Any, **columns: Any) -> pd.DataFrame:
    k = np.arange(len(x))
    return pd.DataFrame({"x": x, "u": 20.0 + k, "r": 30.0 + k, "t": 1.0 * k} | columns)


def read(frame: pd.DataFrame, **columns: Any) -> Transitions:
    return from_dataframe(frame, **ROLES | columns)


def pairs(data: Transitions) -> list[tuple[float, float]]:
    return list(zip(data.states[:, 0].tolist(), data.next_states[:, 0].tolist(), strict=True))


def test_without_times_missing_values_are_refused_with_column_and_rows() -> None:
    with pytest.raises(DataError, match=r"state column 'x' has 1 missing .*\(row 2\).*'hold 5'"):
        read(log([10, 11, NAN, 13]))


def test_with_times_missing_values_are_held_and_counted() -> None:
    data = read(log([10, 11, NAN, NAN, 14]), time="t")
    assert pairs(data) == [(10, 11), (11, 11), (11, 11), (11, 14)]
    assert data.repairs.counts == {"x: empty": 2, "x: missing, held": 2}
    assert data.schema.hold == {"x": 5}


def test_a_longer_stretch_cuts_the_episode_and_is_not_repaired() -> None:
    data = read(log([10, 11, NAN, NAN, NAN, 15, 16]), missing={"x": "hold 2"})
    assert pairs(data) == [(10, 11), (15, 16)]
    assert data.start_kind == "rows"
    assert data.repairs.counts == {"x: empty": 3, LEFT_OUT: 3}
    assert len(read(log([10, 11, NAN, NAN, NAN, 15, 16]), missing={"x": "hold 3"})) == 6


def test_interpolation_is_linear_in_time_and_becomes_a_hold_at_runtime() -> None:
    frame = log([10, 11, NAN, NAN, 20, 21], t=[0, 1, 2, 4, 10, 11])
    data = read(frame, time="t", missing="interpolate 2", gap_factor=20)
    assert data.states[:, 0].tolist() == [10, 11, 12, 14, 20]
    assert data.schema.hold == {"x": 2}
    assert data.repairs.counts["x: missing, interpolated"] == 2


def test_angles_are_interpolated_the_short_way_round() -> None:
    data = read(log([350.0, NAN, 10.0, 20.0]), missing="interpolate 1", angles={"x": 360.0})
    assert data.states[:, 0].tolist() == [350, 360, 10]


def test_a_value_is_neither_held_over_an_end_nor_over_an_episode() -> None:
    for columns in ({"episode": [0, 0, 0, 1, 1, 1]}, {"terminated": [0, 0, 1, 0, 0, 0]}):
        data = read(log([10, 11, 12, NAN, 14, 15], **columns), missing="hold 5")
        assert (14, 15) in pairs(data)
        assert 12.0 not in data.states[3:, 0].tolist()
        assert data.repairs.counts[LEFT_OUT] == 1


def test_rules_by_column_leave_the_others_as_they_are() -> None:
    frame = log([10, NAN, 12, 13, 14], u=[20, 21, NAN, 23, 24], r=[30, 31, 32, NAN, 34])
    data = read(frame, missing={"x": "hold 1", "u": "hold 1", "r": "drop"})
    assert pairs(data) == [(10, 10), (10, 12), (12, 13)]
    assert data.actions[:, 0].tolist() == [20, 21, 21]
    assert data.schema.hold == {"x": 1}
    with pytest.raises(DataError, match="the reward has 1 missing") as caught:
        read(frame, missing={"x": "hold 1", "u": "drop"})
    assert "'x'" not in str(caught.value)


def test_the_last_row_of_an_episode_needs_neither_an_action_nor_a_reward() -> None:
    frame = log([10, 11, 12], u=[20, 21, NAN], r=[30, 31, NAN])
    data = read(frame, time="t")
    assert pairs(data) == [(10, 11), (11, 12)]
    assert {name for name in data.repairs.counts if "missing" in name} == set()


@pytest.mark.parametrize("rule", ["hold 0", "keep", "hold -1", "drop 5", "interpolate 2.5", 5])
def test_a_rule_that_is_none_is_refused(rule: Any) -> None:
    with pytest.raises(ArgumentError, match="the rule for missing values of 'x' is"):
        read(log([10, 11, 12]), missing={"x": rule})


def test_rules_name_columns_and_suit_logged_next_states() -> None:
    with pytest.raises(DataError, match="a rule for missing values names 'level'"):
        read(log([10, 11, 12]), missing={"level": "hold 1"})
    with pytest.raises(ArgumentError, match="'x' cannot be repaired by 'hold 1'"):
        read(log([10, 11, 12], next_x=0.0), missing="hold 1")
    assert len(read(log([10, NAN, 12], next_x=0.0), missing={"x": "drop"})) == 2


@given(
    values=st.lists(st.one_of(st.just(NAN), st.just(np.inf), st.floats(-1e6, 1e6)), min_size=1, max_size=40),
    cuts=st.lists(st.booleans(), min_size=40, max_size=40),
    most=st.integers(1, 4),
    kind=st.sampled_from(["hold", "interpolate"]),
)
def test_a_repair_invents_no_value_and_is_counted(
    values: list[float], cuts: list[bool], most: int, kind: str
) -> None:
    n = len(values)
    before, runs = np.array(values), ~np.array(cuts[: n - 1], dtype=bool)
    none = np.zeros(n, dtype=bool)
    rows = {"states": before[:, None].copy(), "actions": np.zeros((n, 1)), "rewards": np.zeros(n)}
    log = Recording(Source("log"), (("x",), ("u",)), rows | {"terminated": none, "truncated": none})
    rules = rules_of({"x": f"{kind} {most}"}, log)
    found, arrives, *_ = repair_missing(log, rules, runs, gap_factor=5.0, periods=(None,))
    after = found.rows["states"][:, 0]

    # A second implementation, row by row.
    last, length, expected = NAN, 0, before.copy()
    for row in range(n):
        if row and not runs[row - 1]:
            last, length = NAN, 0
        if np.isfinite(before[row]):
            last, length = before[row], 0
            continue
        length += 1
        stop = row + 1
        while stop < n and runs[stop - 1] and not np.isfinite(before[stop]):
            stop += 1
        ended = stop < n and bool(runs[stop - 1])
        total = length + stop - row - 1
        if np.isfinite(last) and total <= most and (ended or kind == "hold"):
            share = length / (total + 1)
            expected[row] = last if kind == "hold" else last + share * (before[stop] - last)
    np.testing.assert_allclose(after, expected, rtol=1e-12, atol=1e-6)
    if kind == "hold":
        changed = ~np.isfinite(before) & np.isfinite(after)
        assert np.isin(after[changed], before[np.isfinite(before)]).all()
    word = {"hold": "held", "interpolate": "interpolated"}[kind]
    counts = found.repairs.counts
    assert counts.get(f"x: missing, {word}", 0) == int((~np.isfinite(before) & np.isfinite(after)).sum())
    assert counts.get(LEFT_OUT, 0) == int((~np.isfinite(after)).sum())
    assert np.array_equal(arrives, np.isfinite(after))
