"""`describe`: each finding is raised by a dataset made for it, and by none that is clean."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch

import nopg
from nopg.data import Transitions
from nopg.data.io import from_dataframe
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, SupportWarning
from nopg.inspect import Description, Finding, Grade, describe

EPISODES, LENGTH = 8, 50
ROWS = EPISODES * LENGTH
OK, WARNING, ERROR = Grade

Floats = npt.NDArray[Any]


def arrays() -> dict[str, Any]:
    """A heated tank under random heating: every column moves, every episode is cut off by the recording."""
    rng = np.random.default_rng(0)
    temperature, level = np.empty((EPISODES, LENGTH + 1)), np.empty((EPISODES, LENGTH + 1))
    heater = rng.uniform(0, 1, (EPISODES, LENGTH))
    temperature[:, 0], level[:, 0] = rng.uniform(58, 62, EPISODES), rng.uniform(0.9, 1.1, EPISODES)
    for t in range(LENGTH):
        temperature[:, t + 1] = temperature[:, t] + 0.3 * (50 + 20 * heater[:, t] - temperature[:, t])
        level[:, t + 1] = 1 + 0.8 * (level[:, t] - 1) + 0.08 * rng.standard_normal(EPISODES)
    states = np.stack([temperature, level], axis=2)
    cut = np.zeros((EPISODES, LENGTH), dtype=bool)
    cut[:, -1] = True
    return {
        "states": states[:, :-1].reshape(-1, 2),
        "actions": heater.reshape(-1),
        "rewards": -np.abs(temperature[:, :-1].reshape(-1) - 60),
        "next_states": states[:, 1:].reshape(-1, 2),
        "truncated": cut.reshape(-1),
        "episodes": np.arange(ROWS) // LENGTH,
        "state_names": ["temperature", "level"],
        "action_names": ["heater"],
        "initial_states": [[60.0, 1.0]],
    }


HEATER = arrays()["actions"]


def tank(**changes: Any) -> Transitions:
    return Transitions.from_arrays(**(arrays() | changes))


def found_in(topic: str, data: Transitions) -> Finding:
    finding = describe(data).finding(topic)
    assert finding is not None
    return finding


def with_column(k: int, change: Callable[[Floats], Floats]) -> Transitions:
    """The tank with one column changed alike in states and next states; change takes the whole column."""
    base = arrays()
    states, arrived = (base[name].reshape(EPISODES, LENGTH, 2) for name in ("states", "next_states"))
    chain = np.concatenate([states, arrived[:, -1:]], axis=1)
    chain[:, :, k] = change(chain[:, :, k].copy())
    return tank(states=chain[:, :-1].reshape(-1, 2), next_states=chain[:, 1:].reshape(-1, 2))


def flags(*rows: int) -> Floats:
    ends = np.zeros(ROWS)
    ends[[*rows]] = 1
    return ends


def held(first: int, last: int) -> Callable[[Floats], Floats]:
    """The column stuck in one episode."""

    def change(column: Floats) -> Floats:
        column[2, first : last + 1] = column[2, first]
        return column

    return change


def spike(column: Floats) -> Floats:
    column[1, 20] = column.max() + 0.2
    column[1, 19] = column[1, 21] = column.min()
    return column


def with_code() -> Transitions:
    states = arrays()["states"]
    states[123, 0] = -999.0
    return tank(states=states)


def code_at_an_end() -> Transitions:
    """The last reading of an episode is in next states alone."""
    arrived = arrays()["next_states"]
    arrived[149, 1] = -999.0
    return tank(next_states=arrived)


def turning(column: Floats) -> Floats:
    return np.cumsum(np.full_like(column, 20.0), axis=1) % 360


def copied(rows: int) -> Transitions:
    return tank().take(torch.cat([torch.arange(ROWS), torch.arange(rows) % ROWS]))


def bounded(**bounds: tuple[float, float]) -> Transitions:
    data = tank()
    return replace(data, schema=replace(data.schema, bounds=bounds))


def shuffled() -> Transitions:
    return tank().take(torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)))


def interleaved() -> Transitions:
    return tank().take(torch.arange(ROWS).reshape(EPISODES, LENGTH).T.reshape(-1))


def everything_held() -> Transitions:
    data = with_column(0, held(10, 39))
    states, arrived, actions = (part.clone() for part in (data.states, data.next_states, data.actions))
    states[110:140, 1], arrived[110:139, 1], actions[110:140] = 1.0, 1.0, 0.5
    return replace(data, states=states, next_states=arrived, actions=actions)


# What is clean stays clean.


@pytest.fixture(scope="module")
def clean() -> Description:
    return describe(tank())


def test_a_clean_recording_has_nothing_to_correct_and_every_topic_is_judged_once(clean: Description) -> None:
    assert [str(finding) for finding in clean.findings if finding.grade != OK] == []
    assert clean.grade == OK
    assert " ".join(sorted(finding.topic for finding in clean.findings)) == (
        "angles constant columns duplicates ends excitation order outliers reward rows saturation "
        "stuck sensor"
    )


def test_the_pendulum_grid_is_clean_but_for_the_rows_at_both_ends_of_the_circle() -> None:
    description = describe(collect_grid(Pendulum(), (15, 15, 2)))
    topics = [finding.topic for finding in description.findings if finding.grade != OK]
    assert topics == ["duplicates", "levels of actions"]  # the torque of this grid is all or nothing
    assert "30 rows (6.67 %)" in description.findings[0].what
    assert description.finding("stuck sensor") is description.finding("order") is None


# Each finding by itself.

CASES: list[tuple[str, Callable[[], Transitions], Grade, str]] = [
    ("rows", lambda: tank().take(torch.arange(30)), WARNING, "30 distinct rows for 3 inputs"),
    ("rows", lambda: tank().take(torch.tensor([0])), ERROR, "1 distinct row"),
    ("duplicates", lambda: copied(2), OK, "2 rows"),
    ("duplicates", lambda: copied(20), WARNING, "20 rows"),
    ("duplicates", lambda: copied(ROWS + 10), ERROR, "410 rows"),
    ("constant columns", lambda: with_column(1, lambda x: 0 * x + 0.7), ERROR, "level = 0.7 in every row"),
    ("constant columns", lambda: tank(actions=np.full(ROWS, 0.3)), ERROR, "the action heater never changes"),
    (
        "constant columns",
        lambda: tank(actions=np.where(np.arange(ROWS) < 4, 1.0, 0.25)),
        WARNING,
        "heater = 0.25 in 99 % of the rows",
    ),
    ("constant columns", lambda: with_column(1, lambda x: 1e5 + 1e-3 * x), WARNING, "level varies by"),
    ("outliers", with_code, ERROR, "temperature has 1 value far from all others (-999 in row 123)"),
    ("outliers", code_at_an_end, ERROR, "level has 1 value far from all others (-999 in row 149)"),
    ("angles", lambda: with_column(0, turning), WARNING, "temperature crosses its whole range in one step"),
    ("angles", lambda: replace_angle(with_column(0, turning)), OK, "declared: temperature"),
    ("angles", lambda: with_column(1, lambda x: np.arange(x.size).reshape(x.shape) // 10 % 2.0), OK, ""),
    ("angles", lambda: with_column(1, spike), OK, ""),
    ("reward", lambda: tank(rewards=np.full(ROWS, -1.0)), ERROR, "-1 in every row and nothing terminates"),
    ("reward", lambda: tank(rewards=np.full(ROWS, -1.0), terminated=flags(ROWS - 1)), OK, "different times"),
    ("ends", lambda: tank(truncated=None), WARNING, "8 of 8 episodes end without a flag"),
    (
        "ends",
        lambda: tank(terminated=arrays()["truncated"], truncated=None),
        WARNING,
        "8 of 8 episodes are terminated after exactly 50 rows",
    ),
    ("ends", lambda: tank(terminated=flags(17, 80)), ERROR, "2 rows (17, 80) are terminated"),
    ("ends", interleaved, OK, ""),
    ("order", interleaved, OK, "every next state equals the following state"),
    ("order", shuffled, WARNING, "of the next states differ from the following state"),
    ("order", lambda: tank(episodes=None, truncated=None), WARNING, "no episodes are given"),
    (
        "stuck sensor",
        lambda: with_column(0, held(10, 39)),
        ERROR,
        "temperature reads exactly 60.7367 in rows 110 to 139, 7.5 % of the data, while other columns move",
    ),
    ("stuck sensor", lambda: with_column(1, held(10, 21)), WARNING, "level reads exactly"),
    ("stuck sensor", lambda: with_column(1, lambda x: x.clip(0.95)), WARNING, "the end of its range"),
    ("stuck sensor", everything_held, WARNING, "nothing moves in rows 110 to 139"),
    ("stuck sensor", lambda: with_column(1, lambda x: x.round(1)), OK, ""),  # a coarse sensor
    ("saturation", lambda: tank(actions=np.clip(3 * HEATER - 1, 0, 1)), WARNING, "heater is at 0 in"),
    ("saturation", lambda: tank(actions=np.arange(ROWS) % 2.0), OK, "heater has 2 levels"),
    (
        "declared bounds",
        lambda: bounded(heater=(0.0, 0.9)),
        ERROR,
        "bounds of 'heater' are [0, 0.9], but",
    ),
    (
        "declared bounds",
        lambda: bounded(level=(1.2, 1.5)),
        ERROR,
        "bounds of 'level' are [1.2, 1.5], but",
    ),
    ("declared bounds", lambda: bounded(heater=(-1.0, 2.0)), OK, "kept by heater"),
    (
        "initial states",
        lambda: tank(initial_states=None, episodes=None, truncated=None),
        WARNING,
        "none are declared",
    ),
]


def replace_angle(data: Transitions) -> Transitions:
    return replace(data, schema=replace(data.schema, angles={"temperature": 360.0}))


@pytest.mark.parametrize(("topic", "make", "grade", "words"), CASES)
def test_what_is_wrong_is_found_with_its_grade_and_in_words(
    topic: str, make: Callable[[], Transitions], grade: Grade, words: str
) -> None:
    finding = found_in(topic, make())
    assert (finding.grade, words in finding.what) == (grade, True), str(finding)


def test_advice_names_the_option_to_write() -> None:
    assert "angles={'temperature': 340}" in found_in("angles", with_column(0, turning)).advice
    assert "starting_at" in found_in("initial states", CASES[-1][1]()).advice


def test_a_run_does_not_reach_across_episodes_and_a_set_point_may_stay() -> None:
    def ends_alike(column: Floats) -> Floats:
        column[2, -8:] = column[3, :8] = 1.0
        return column

    assert found_in("stuck sensor", with_column(1, ends_alike)).grade == OK
    data = with_column(1, lambda x: np.repeat([1.0, 2.0], x.size // 2).reshape(x.shape))
    schema = replace(data.schema, exogenous={"level": "hold"})
    assert found_in("stuck sensor", replace(data, schema=schema)).grade == OK


# What a reader found.


def log(rows: int = 80, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = {name: rng.normal(size=rows) for name in ("x", "u", "r")}
    return pd.DataFrame(names | {"t": 60.0 * np.arange(rows)} | columns)


def described(frame: pd.DataFrame, time: str | None = "t") -> Description:
    return describe(from_dataframe(frame, states=["x"], actions=["u"], reward="r", time=time))


def test_the_interval_and_the_length_of_episodes_are_in_units_of_time() -> None:
    facts = described(log()).facts
    assert facts["Sampling"] == "a row every 1 min"
    assert facts["Episodes"] == "1 of 79 rows (1.32 h); ends: 1 truncated"
    untimed = described(log(), time=None)
    assert untimed.facts["Episodes"].startswith("1 of 79 rows; ends")
    assert untimed.facts["Sampling"].startswith("not known")
    assert untimed.finding("sampling") is None


def test_irregular_steps_and_many_gaps_are_warnings_and_a_gap_is_not() -> None:
    def sampling(times: Floats) -> tuple[Grade, str]:
        finding = described(log(len(times), t=times)).finding("sampling")
        assert finding is not None
        return finding.grade, finding.what

    even = 60.0 * np.arange(400)
    uneven = sampling(even[:80] + np.where(np.arange(80) % 4 == 0, 20.0, 0.0))
    assert uneven == (WARNING, "a row every 1 min, but 49 % of the steps differ by more than 10 %")
    once = sampling(even + 3600.0 * (np.arange(400) > 40))
    assert once == (OK, "a row every 1 min; 1 gap between runs of rows")
    dropped = np.delete(even, np.arange(10, 390, 20))
    assert sampling(dropped)[0] == WARNING
    assert "of the steps are longer and end a run of rows" in sampling(dropped)[1]


def test_repaired_and_dropped_values_are_shown_with_their_numbers() -> None:
    x = np.random.default_rng(1).normal(size=80)
    x[[3, 20, 21]] = np.nan
    x[40:47] = np.nan
    found = described(log(x=x))
    missing, dropped = found.finding("missing values"), found.finding("invalid rows")
    assert missing is not None
    assert dropped is not None
    assert (missing.grade, missing.what) == (OK, "repaired: x (4.23 %)")
    assert dropped.what.startswith("7 rows with NaN or infinities were dropped")
    assert "  x: missing, held: 3" in str(found)
    assert found.to_dict()["repairs"]["counts"]["x: missing, held"] == 3
    slow = np.where(np.arange(80) % 4 == 0, x, np.nan)
    mostly = described(log(x=slow)).finding("missing values")
    assert mostly is not None
    assert mostly.grade == WARNING


# The value and the text.


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_text_fits_a_terminal_and_repeats(clean: Description, width: int) -> None:
    text = clean.to_text(width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert text == describe(tank()).to_text(width)
    assert all(name in text for name in ("temperature", "level", "heater", "reward"))


@pytest.mark.parametrize(
    "data",
    [
        tank(actions=np.full(ROWS, 0.3)),
        tank(states=np.zeros((ROWS, 2)), next_states=np.zeros((ROWS, 2))),
        with_column(1, lambda x: 1e5 + 1e-12 * x),
        Transitions.from_arrays(
            [[0.0], [1.0], [2.5]], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0], [[1.0], [2.0], [3.0]]
        ),
    ],
)
def test_odd_data_are_described_without_a_warning(data: Transitions) -> None:
    assert str(describe(data))


@pytest.mark.parametrize("width", [8, 9])
def test_more_columns_than_local_models_are_made_for_are_named_also_before_a_training(width: int) -> None:
    s = np.random.default_rng(0).normal(size=(40, width))
    data = Transitions.from_arrays(s, s[:, :1], s[:, 0], s)
    found = describe(data).finding("columns")
    assert (None if found is None else found.grade) == (None if width == 8 else "error")  # no verdict is ok
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(ArgumentError, match="limits are kept"):
            nopg.optimize(data, 0.9, model="paper", constraints=[None])  # type: ignore[list-item]
    assert [one.category for one in said] == [SupportWarning] * (width - 8)
    assert all("9 state columns" in str(one.message) for one in said)
