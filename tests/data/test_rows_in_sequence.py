"""Rows of a log in sequence, and where the task starts in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nopg._typing import BoolArray, FloatArray
from nopg.data import Transitions, start_note
from nopg.data._episodes import contiguous_runs
from nopg.data.io import from_dataframe, read_parquet


def test_a_row_continues_the_one_before_if_it_begins_where_that_ended() -> None:
    states, after = [0.0, 1.0, 5.0, 6.0], [1.0, 2.0, 6.0, 7.0]
    data = Transitions.from_arrays(states, [0.0] * 4, [0.0] * 4, after)
    assert data.continues.tolist() == [False, True, False, True]
    data = Transitions.from_arrays(states, [0.0] * 4, [0.0] * 4, after, episodes=[0, 1, 1, 1])
    assert data.continues.tolist() == [False, False, False, True]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_no_row_continues_an_end(flag: str) -> None:
    states, after = [0.0, 1.0, 2.0], [1.0, 2.0, 3.0]
    flags: dict[str, Any] = {flag: [False, True, False]}
    data = Transitions.from_arrays(states, [0.0] * 3, [0.0] * 3, after, episodes=[0] * 3, **flags)
    assert data.continues.tolist() == [False, True, False]
    assert contiguous_runs(data) == [slice(0, 2), slice(2, 3)]


def walk(lengths: tuple[int, ...], jumps: int = 0) -> tuple[FloatArray, FloatArray, BoolArray]:
    """States, next states and ends of walks one after the other, some rows of which do not follow."""
    rng = np.random.default_rng(0)
    paths = [rng.normal(size=(length + 1, 2)) for length in lengths]
    states = np.concatenate([path[:-1] for path in paths])
    after = np.concatenate([path[1:] for path in paths])
    after[:jumps] += 1.0
    ends = np.zeros(len(states), dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    return states, after, ends


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_flags_number_the_episodes_of_rows_in_sequence(flag: str) -> None:
    states, after, ends = walk((3, 2, 4))
    flags: dict[str, Any] = {flag: ends}
    data = Transitions.from_arrays(states, np.zeros(9), np.zeros(9), after, **flags)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert data.start_rows is not None
    assert data.start_rows.tolist() == [0, 3, 5]
    noisy = after + 1e-11 * np.ptp(states, axis=0)
    rounded = Transitions.from_arrays(states, np.zeros(9), np.zeros(9), noisy, **flags)
    assert rounded.episodes is not None


def test_flags_say_nothing_about_rows_that_are_not_in_sequence() -> None:
    for jumps, known in ((1, True), (2, True), (3, False)):  # of 20 rows without an end
        states, after, ends = walk((11, 11), jumps)
        data = Transitions.from_arrays(states, np.zeros(22), np.zeros(22), after, terminated=ends)
        assert (data.episodes is not None) == known
        assert data.start_kind == ("episodes" if known else "rows")
    states, after, ends = walk((11, 11))
    for flags in (None, np.zeros(22), np.ones(22)):  # nothing ends, or nothing goes on
        data = Transitions.from_arrays(states, np.zeros(22), np.zeros(22), after, terminated=flags)
        assert data.episodes is None


def test_tables_with_next_states_and_flags_have_episodes_too(tmp_path: Path) -> None:
    states, after, ends = walk((3, 2, 4))
    frame = pd.DataFrame({"x": states[:, 0], "u": 0.0, "r": 0.0, "next_x": after[:, 0], "terminated": ends})
    data = from_dataframe(frame, states=["x"], actions=["u"], reward="r")
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert data.start_kind == "episodes"
    named = from_dataframe(frame.assign(run=0), states=["x"], actions=["u"], reward="r", episode="run")
    assert named.episodes is not None
    assert named.episodes.tolist() == [0] * 9
    frame[:4].to_parquet(tmp_path / "0.parquet")
    frame[4:].to_parquet(tmp_path / "1.parquet")
    files = read_parquet(tmp_path, states=["x"], actions=["u"], reward="r")
    assert files.episodes is not None
    assert files.episodes.tolist() == [0, 0, 0, 1, 2, 3, 3, 3, 3]  # a file starts an episode


def tank(**settings: Any) -> Transitions:
    levels = np.arange(7.0)
    states = np.stack([levels, np.full(7, 3.0)], axis=1)
    return Transitions.from_arrays(
        states[:-1], np.zeros(6), np.zeros(6), states[1:], state_names=["level", "goal"], **settings
    )


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"initial_states": [[0.0, 3.0]] * 2}, "the task starts in 2 declared states"),
        ({"initial_states": [[0.0, 3.0]]}, "the task starts in 1 declared state"),
        ({"episodes": [0, 0, 1, 1, 2, 2]}, "the task starts in the first rows of 3 episodes"),
        (
            {"episodes": [0] * 6, "terminated": [0, 0, 0, 0, 0, 1]},
            "the task starts in the first row of 1 episode",
        ),
        ({"begins": [0, 1, 0, 1, 0, 0]}, "the task starts in 2 rows of the log"),
        ({"begins": [1] * 6}, "every row is a start: a controller may take over at any time"),
        ({"episodes": [0] * 6}, "every row is a start: a controller may take over at any time"),
        ({}, "every row is a start: a controller may take over at any time"),
        (
            {"episodes": [0, 0, 0, 1, 1, 1], "exogenous": {"goal": "hold", "level": "log"}},
            "the task starts in the first rows of 2 episodes; goal is held within an episode; "
            "level moves as in the log",
        ),
    ],
)
def test_the_note_names_the_kind_and_number_of_starts(settings: dict[str, Any], note: str) -> None:
    assert start_note(tank(**settings)) == note
