"""Tables: which column is what, where next states come from, how episodes end."""

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.io_cases import assert_same, grid
from nopg.baselines._d3rlpy import to_d3rlpy
from nopg.data import Schema, Transitions
from nopg.data._repairs import GAPS
from nopg.data.io import (
    from_dataframe,
    read_minari,
    read_parquet,
    to_dataframe,
    write_parquet,
)
from nopg.data.io._transitions import shift
from nopg.errors import DataError, MissingExtraError
from nopg.inspect import describe

ROLES: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r"}
NAN = float("nan")


def log(rows: Any = 4, **columns: Any) -> pd.DataFrame:
    """Rows 0, 1, 2 … whose state is 10, 11, 12 …, action 20, 21 … and reward 30, 31 …"""
    k = np.arange(rows)
    return pd.DataFrame({"x": 10.0 + k, "u": 20.0 + k, "r": 30.0 + k} | columns)


def read(frame: pd.DataFrame, **columns: Any) -> Transitions:
    return from_dataframe(frame, **ROLES | columns)


def story(data: Transitions) -> list[tuple[float, float, str]]:
    """State, next state and end of every transition."""
    ends = np.where(data.terminated, "terminated", np.where(data.truncated, "truncated", ""))
    return list(zip(data.states[:, 0].tolist(), data.next_states[:, 0].tolist(), ends.tolist(), strict=True))


# Next states from the next row.


def test_a_table_of_four_states_holds_three_transitions_the_last_one_truncated() -> None:
    data = read(log())
    assert story(data) == [(10, 11, ""), (11, 12, ""), (12, 13, "truncated")]
    assert data.actions[:, 0].tolist() == [20, 21, 22]
    assert data.rewards.tolist() == [30, 31, 32]


def test_a_terminated_last_row_is_a_transition_although_its_next_state_is_unknown() -> None:
    data = read(log(terminated=[0, 0, 0, 1]))
    assert story(data) == [(10, 11, ""), (11, 12, ""), (12, 13, ""), (13, 13, "terminated")]


def test_flags_in_the_middle_separate_episodes() -> None:
    data = read(log(6, terminals=[0, 1, 0, 0, 0, 0], timeouts=[0, 0, 0, 1, 0, 0]))
    expected = [(10, 11, ""), (11, 11, "terminated"), (12, 13, "truncated"), (14, 15, "truncated")]
    assert story(data) == expected
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 2]


def test_the_row_after_an_end_is_the_final_state_if_it_is_the_last_of_its_episode() -> None:
    data = read(
        log(6, terminated=[0, 1, 0, 0, 0, 0], truncated=[0, 0, 0, 0, 1, 0], episode=[5, 5, 5, 8, 8, 8])
    )
    assert story(data) == [(10, 11, ""), (11, 12, "terminated"), (13, 14, ""), (14, 15, "truncated")]
    assert data.episodes is not None
    assert data.episodes.tolist() == [5, 5, 8, 8]


@pytest.mark.parametrize(
    "flag", [[0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]], ids=["on the step", "on the state"]
)
def test_a_row_without_an_action_is_the_final_state_with_or_without_episodes(flag: list[int]) -> None:
    idle = log(6, u=[20, 21, NAN, 23, 24, NAN], r=[30, 31, NAN, 33, 34, NAN], terminated=flag)
    for frame in (idle, idle.assign(episode=[0, 0, 0, 1, 1, 1])):
        expected = [(10, 11, ""), (11, 12, "terminated"), (13, 14, ""), (14, 15, "terminated")]
        assert story(read(frame)) == expected


def test_a_missing_action_in_the_middle_is_a_fault_and_not_an_end() -> None:
    with pytest.raises(DataError, match=r"action column 'u' has 1 missing or infinite value \(row 2\)"):
        read(log(5, u=[20, 21, NAN, 23, 24]))


def test_what_is_dropped_cuts_the_episode_in_two() -> None:
    data = read(log(7, x=[10, 11, 12, NAN, 14, 15, 16]), missing="drop")
    expected = [(10, 11, ""), (11, 12, "truncated"), (14, 15, ""), (15, 16, "truncated")]
    assert story(data) == expected
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 1]


def test_episodes_may_be_interleaved_and_have_names() -> None:
    data = read(log(6, run=["b", "a", "b", "a", "b", "a"]), episode="run")
    expected = [(10, 12, ""), (12, 14, "truncated"), (11, 13, ""), (13, 15, "truncated")]
    assert story(data) == expected
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 1]


def test_a_grid_without_next_states_is_refused_and_with_them_it_passes() -> None:
    data, frame = grid(), to_dataframe(grid())
    names: dict[str, Any] = {"states": ["angle", "speed"], "actions": ["torque"], "reward": "reward"}
    assert_same(from_dataframe(frame, **names), data, whole_schema=False)
    alone = frame.drop(columns=["next_angle", "next_speed", "terminated"]).assign(episode=range(50))
    with pytest.raises(DataError, match="all 50 are unconnected"):
        from_dataframe(alone, **names)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_shifting_loses_exactly_one_row_per_episode_that_did_not_terminate(
    rows: list[tuple[bool, bool, bool]],
) -> None:
    ends, cuts, new = (np.array(column) for column in zip(*rows, strict=True))
    found = shift(~new[1:], ends, cuts, idle=np.full(len(rows), False), whole_episodes=False)

    # A second implementation, row by row.
    expected: list[tuple[int, int]] = []
    previous: int | None = None
    for k in range(len(rows)):
        if previous is not None and not new[k]:
            expected.append((previous, k))
        previous = None if ends[k] or cuts[k] else k
        if ends[k]:
            expected.append((k, k))
    rows_found = np.flatnonzero(found.kept)
    next_rows = rows_found + found.linked[rows_found]
    assert list(zip(rows_found.tolist(), next_rows.tolist(), strict=True)) == expected
    last = np.diff(found.segments, append=-1) != 0
    assert np.array_equal(found.terminated | found.truncated, last)
    assert not (found.terminated & found.truncated).any()


# Time.


@pytest.mark.parametrize(
    "time",
    [
        [0.0, 1.0, 2.0, 60.0, 61.0, 62.0],
        pd.to_datetime(["2024-01-01"] * 6) + pd.to_timedelta([0, 1, 2, 60, 61, 62], unit="min"),
        pd.to_datetime(["2024-01-01"] * 6, utc=True) + pd.to_timedelta([0, 1, 2, 60, 61, 62], unit="s"),
        pd.to_timedelta([0, 1, 2, 60, 61, 62], unit="s"),
    ],
    ids=["numbers", "dates", "dates in a zone", "durations"],
)
def test_a_jump_in_time_ends_an_episode(time: Any) -> None:
    frame = log(6, t=time)
    expected = [(10, 11, ""), (11, 12, "truncated"), (13, 14, ""), (14, 15, "truncated")]
    assert story(read(frame, time="t")) == expected
    assert len(read(frame, time="t", gap_factor=100.0)) == 5


# Names of columns.


def test_next_states_are_found_by_their_name_unless_rows_are_to_be_shifted() -> None:
    frame = log(next_x=[7.0, 7.0, 7.0, 7.0])
    assert read(frame).next_states[:, 0].tolist() == [7.0] * 4
    assert read(frame).episodes is None
    assert len(read(frame, next_states="shift")) == 3
    assert read(frame.rename(columns={"next_x": "later"}), next_states=["later"]).next_states[0, 0] == 7.0


@pytest.mark.parametrize("name", ["terminated", "terminals", "terminations", "terminal"])
def test_usual_names_of_terminated_are_known(name: str) -> None:
    assert story(read(log(**{name: [0, 0, 0, 1]})))[-1] == (13, 13, "terminated")


def test_a_lone_done_counts_as_terminated_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nopg"):
        assert story(read(log(done=[0, 0, 0, 1])))[-1] == (13, 13, "terminated")
    assert "'done' is taken as terminated" in caplog.text


def test_done_next_to_a_truncated_flag_counts_where_that_is_not_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = read(log(next_x=[0.0] * 4, done=[0, 1, 0, 1], timeouts=[0, 1, 0, 0]))
    assert data.terminated.tolist() == [False, False, False, True]
    assert data.truncated.tolist() == [False, True, False, False]
    assert not caplog.records


def test_words_and_missing_flags_are_understood() -> None:
    for flags in (["no", "", None, "Yes"], [False, None, False, True], pd.array([0, pd.NA, 0, 1], "Int8")):
        assert read(log(terminated=flags)).terminated.tolist() == [False, False, False, True]


def test_a_column_has_one_role_and_exists() -> None:
    with pytest.raises(DataError, match=r"\['x'\] is given twice"):
        read(log(), actions=["x"])
    with pytest.raises(DataError, match=r"no column 'temprature'; did you mean 'temperature'\?"):
        read(log(temperature=1.0), states=["temprature"])
    with pytest.raises(DataError, match="1 state columns but 2 next-state columns"):
        read(log(), next_states=["x", "u"])


# Units and bounds.


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"units": {"z": "m"}}, "the unit of 'z' is declared, but the columns are"),
        ({"units": {"x": 3}}, "the unit of 'x' is 3; give text"),
        ({"bounds": {"reward": (0.0, 1.0)}}, "the bounds of 'reward' are declared"),
        ({"bounds": {"x": (1.0, 1.0)}}, r"the bounds of 'x' are \(1.0, 1.0\)"),
        ({"bounds": {"x": (NAN, 1.0)}}, r"the bounds of 'x' are \(nan"),
        ({"bounds": {"x": (1.0,)}}, "give \\(lowest, highest\\)"),
    ],
)
def test_units_and_bounds_belong_to_columns_and_make_sense(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Schema(("x",), ("u",), **change)


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pyarrow", "parquet", write_parquet),
        ("pyarrow", "parquet", lambda data, path: read_parquet(path, **ROLES)),
        ("minari", "minari", lambda data, path: read_minari("a-v0")),
        ("d3rlpy", "baselines", lambda data, path: to_d3rlpy(data)),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    package: str, extra: str, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (path := tmp_path / "file").write_text("x,u,r", encoding="utf-8")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}.*nopg\[{extra}\]"):
        call(grid(), path)


@pytest.mark.parametrize("states", [0, [0], None, [], "x"])
def test_a_list_of_states_that_names_no_column_is_refused(states: Any) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "u": [1.0, 2.0], "r": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"states is .*give the names of the columns as a list"):
        from_dataframe(frame, states=states, actions=["u"], reward="r")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"next_states": "shift"},
        {"resample": "hold"},
        {"resample": "mean"},
        {"missing": "hold 3"},
        {"gap_factor": 1.5},
    ],
    ids=str,
)
def test_a_dropped_sample_is_no_transition_over_two_intervals(settings: dict[str, Any]) -> None:
    kept = np.sort(np.random.default_rng(0).permutation(2_000)[:1_920])  # 4 % of the samples are missing
    frame = pd.DataFrame({"x": kept.astype(float), "u": 0.0, "r": 0.0, "t": kept.astype(float)})
    data = read(frame, time="t", **settings)
    if "resample" in settings:  # a regular grid, on which missing samples are held and counted
        assert len(data) == kept[-1] - kept[0]
        assert sum(data.repairs.counts.values()) > 0
        return
    steps = (data.next_states - data.states)[:, 0]  # the state is the time in intervals
    assert set(steps.tolist()) == {1.0}
    assert data.repairs.counts[GAPS] == int((np.diff(kept) > 1).sum())
    assert "of the steps are longer" in " ".join(str(describe(data)).split())


def test_a_column_may_have_a_name_of_ones_own_in_formulas_rules_and_units() -> None:
    frame = pd.DataFrame({"TIC4711.PV [°C]": [1.0, NAN, 3.0, 4.0], "PY 5 %": [0.0, 1.0, 2.0, 3.0], "SP": 2.0})
    data = from_dataframe(
        frame,
        states=["T=TIC4711.PV [°C]", "goal=SP"],
        actions=["valve = PY 5 %"],
        exogenous=["goal"],
        reward="-(T - goal)**2 - diff(valve)**2",
        units={"T": "°C", "goal": "°C"},
        missing={"T": "hold 2"},
    )
    assert data.schema.states == ("T", "goal", "valve_lag1")
    assert data.schema.exogenous == {"goal": "log"}
    assert data.schema.hold == {"T": 2}
    assert data.rewards.tolist() == [-2.0, -2.0]
    with pytest.raises(DataError, match=r"no column 'TIC4711.P \[°C\]'; did you mean 'TIC4711.PV \[°C\]'"):
        from_dataframe(frame, states=["T=TIC4711.P [°C]"], actions=["SP"], reward="-T")
    equal = from_dataframe(
        frame.rename(columns={"SP": "a=b"}), states=["a=b"], actions=["PY 5 %"], reward=False
    )
    assert equal.schema.states == ("a=b",)  # a column of that name comes first


@pytest.mark.parametrize("name", ["a`b", "a\nb", "a\x01b", "a\u2028b"])
def test_names_that_no_formula_or_file_can_hold_are_refused_unless_they_get_another(name: str) -> None:
    frame = log().rename(columns={"x": name})
    with pytest.raises(DataError, match=r"the column name .* holds .*as in 'T=TIC4711\.PV'"):
        from_dataframe(frame, states=[name], actions=["u"], reward="r")
    assert from_dataframe(frame, states=[f"T={name}"], actions=["u"], reward="r").schema.states == ("T",)
    for own in (name, "a\ud800"):  # half a character, which pandas has no columns of
        with pytest.raises(DataError, match=r"the column name .* holds"):
            Transitions.from_arrays([0.0], [0.0], [0.0], [0.0], state_names=[own])


@pytest.mark.parametrize("name", ["m³/h", "m³", "µ", "°C", "100 %", "lambda", 'a"b', "*/", "<script>", "ﬁx"])
def test_names_as_plants_write_them_are_known_to_formulas_and_derived_columns(name: str) -> None:
    frame = pd.DataFrame({name: np.arange(6.0), f"{name} 2": np.arange(6.0) ** 2})
    roles: dict[str, Any] = {"states": [name], "actions": [f"{name} 2"]}
    data = from_dataframe(frame, **roles, reward=f"-diff(`{name}`) - diff(`{name} 2`)**2")
    assert data.derive(lags={name: 2}, integrals={"sum": f"`{name}`"}).states[-1].tolist() == [
        4,
        9,
        3,
        2,
        6.0,
    ]
