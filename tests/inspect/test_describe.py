"""`describe`: each finding is raised by a dataset made for it, and by none that is clean."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from nopg.data import Transitions, start_note
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, MissingExtraError
from nopg.inspect import Description, Finding, Grade, describe

EPISODES, LENGTH = 8, 50
ROWS = EPISODES * LENGTH

Floats = npt.NDArray[np.float64]


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


def tank(**changes: Any) -> Transitions:
    return Transitions.from_arrays(**(arrays() | changes))


def on(topic: str, data: Transitions, **options: Any) -> Finding:
    """Return the finding on a topic."""
    finding = describe(data, **options).finding(topic)
    assert finding is not None
    return finding


def with_column(k: int, change: Any) -> dict[str, Floats]:
    """Return states and next states with one column changed alike in both; change takes the whole column."""
    base = arrays()
    chain = np.concatenate(
        [
            base["states"].reshape(EPISODES, LENGTH, 2),
            base["next_states"].reshape(EPISODES, LENGTH, 2)[:, -1:],
        ],
        axis=1,
    )
    chain[:, :, k] = change(chain[:, :, k].copy())
    return {"states": chain[:, :-1].reshape(-1, 2), "next_states": chain[:, 1:].reshape(-1, 2)}


# What is clean stays clean.


@pytest.fixture(scope="module")
def clean() -> Description:
    return describe(tank())


def test_a_clean_recording_has_nothing_to_mend(clean: Description) -> None:
    assert [str(finding) for finding in clean.findings if finding.grade != Grade.OK] == []
    assert clean.grade == Grade.OK


def test_every_topic_of_a_recording_is_judged_once(clean: Description) -> None:
    assert sorted(finding.topic for finding in clean.findings) == [
        "actions at bounds",
        "angles",
        "constant columns",
        "duplicates",
        "ends",
        "excitation",
        "far values",
        "order",
        "reward",
        "rows",
        "stuck sensor",
    ]


def test_findings_are_numbered_from_the_gravest_down_and_each_says_what_to_do() -> None:
    rows = np.concatenate([np.arange(ROWS), np.arange(40)])
    copies = tank().take(torch.as_tensor(rows))
    constant = replace(copies, states=copies.states.clone().index_fill_(1, torch.tensor([1]), 3.0))
    findings = describe(constant).findings

    assert [finding.number for finding in findings] == list(range(1, len(findings) + 1))
    grades = [list(Grade).index(finding.grade) for finding in findings]
    assert grades == sorted(grades, reverse=True)
    assert {Grade.ERROR, Grade.WARNING, Grade.OK} <= {finding.grade for finding in findings}
    assert all(finding.what and finding.advice for finding in findings)


def test_the_pendulum_grid_is_clean_but_for_the_rows_at_both_ends_of_the_circle() -> None:
    findings = describe(collect_grid(Pendulum(), (15, 15, 2))).findings
    topics = [finding.topic for finding in findings if finding.grade != Grade.OK]
    assert topics == ["duplicates", "levels of actions"]  # the torque of this grid is all or nothing
    assert "30 rows (6.67 %)" in findings[0].what


# Each finding by itself.


def test_few_rows_are_worth_a_look() -> None:
    finding = on("rows", tank().take(torch.arange(30)))
    assert finding.grade == Grade.WARNING
    assert "30 distinct rows for 3 inputs" in finding.what


def test_a_single_row_stops() -> None:
    assert on("rows", tank().take(torch.tensor([0]))).grade == Grade.ERROR


@pytest.mark.parametrize(("dropped", "grade"), [(0, "ok"), (3, "ok"), (40, "warning"), (200, "error")])
def test_dropped_rows_are_judged_by_their_share(dropped: int, grade: str) -> None:
    finding = on("invalid rows", tank(), num_dropped=dropped)
    assert finding.grade == grade
    assert finding.what.startswith(f"{dropped} row")


def test_dropped_rows_are_not_mentioned_where_nobody_knows(clean: Description) -> None:
    assert clean.finding("invalid rows") is None
    assert "Dropped" not in str(clean)


@pytest.mark.parametrize(("copied", "grade"), [(2, "ok"), (20, "warning"), (ROWS + 10, "error")])
def test_duplicates_are_judged_by_their_share(copied: int, grade: str) -> None:
    rows = torch.cat([torch.arange(ROWS), torch.arange(copied) % ROWS])
    finding = on("duplicates", tank().take(rows))
    assert finding.grade == grade
    assert f"{copied} rows" in finding.what


def test_a_constant_state_stops_and_the_rest_is_measured_without_it() -> None:
    data = tank(**with_column(1, lambda column: 0 * column + 0.7))
    description = describe(data)
    finding = description.finding("constant columns")
    assert finding is not None
    assert (finding.grade, finding.what) == (Grade.ERROR, "level = 0.7 in every row")


def test_an_action_that_never_changes_stops() -> None:
    finding = on("constant columns", tank(actions=np.full(ROWS, 0.3)))
    assert finding.grade == Grade.ERROR
    assert "the action heater never changes" in finding.what


def test_a_column_that_hardly_varies_is_worth_a_look() -> None:
    finding = on("constant columns", tank(actions=np.where(np.arange(ROWS) < 4, 1.0, 0.25)))
    assert finding.grade == Grade.WARNING
    assert "heater = 0.25 in 99 % of the rows" in finding.what

    finding = on("constant columns", tank(**with_column(1, lambda column: 1e5 + 1e-3 * column)))
    assert finding.grade == Grade.WARNING
    assert "level varies by" in finding.what


def test_an_error_code_among_the_values_stops() -> None:
    states = arrays()["states"]
    states[123, 0] = -999.0
    finding = on("far values", tank(states=states))
    assert finding.grade == Grade.ERROR
    assert "temperature has 1 value far from all others (row 123; range -999" in finding.what


def test_an_angle_that_nobody_declared_is_worth_a_look_and_a_declared_one_is_not() -> None:
    turning = np.cumsum(np.full((EPISODES, LENGTH + 1), 20.0), axis=1) % 360
    columns = with_column(0, lambda _: turning)
    finding = on("angles", tank(**columns))
    assert finding.grade == Grade.WARNING
    assert "temperature crosses its whole range in one step" in finding.what
    assert "angles={'temperature': 340}" in finding.advice

    assert on("angles", tank(**columns, angles={"temperature": 360})).grade == Grade.OK


def test_a_switch_and_a_spike_are_not_angles() -> None:
    switch = np.tile((np.arange(LENGTH + 1) // 10) % 2.0, (EPISODES, 1))
    assert on("angles", tank(**with_column(1, lambda _: switch))).grade == Grade.OK

    def spike(column: Floats) -> Floats:
        column[1, 20] = column.max() + 0.2
        column[1, 19] = column[1, 21] = column.min()
        return column

    assert on("angles", tank(**with_column(1, spike))).grade == Grade.OK


def test_a_constant_reward_stops_unless_something_terminates() -> None:
    constant = tank(rewards=np.full(ROWS, -1.0))
    assert on("reward", constant).grade == Grade.ERROR
    ends = torch.zeros(ROWS, dtype=torch.bool)
    ends[-1] = True
    assert on("reward", replace(constant, terminated=ends)).grade == Grade.OK


def test_episodes_without_a_flag_are_worth_a_look() -> None:
    finding = on("ends", tank(truncated=None))
    assert finding.grade == Grade.WARNING
    assert "8 of 8 episodes end without a flag" in finding.what


def test_a_time_limit_flagged_as_terminated_is_worth_a_look() -> None:
    finding = on("ends", tank(terminated=arrays()["truncated"], truncated=None))
    assert finding.grade == Grade.WARNING
    assert "8 of 8 episodes are terminated after exactly 50 rows" in finding.what


def test_an_episode_that_goes_on_after_its_end_stops() -> None:
    ends = np.zeros(ROWS)
    ends[[17, 80]] = 1
    finding = on("ends", tank(terminated=ends))
    assert finding.grade == Grade.ERROR
    assert "2 rows (17, 80) are terminated" in finding.what


def test_the_ends_of_episodes_are_counted_as_flagged() -> None:
    ends = np.zeros(ROWS)
    ends[[49, 99]] = 1
    cut = arrays()["truncated"]
    cut[-1] = False
    episodes = describe(tank(terminated=ends, truncated=cut)).episodes
    assert [episodes.ends.count(end) for end in ("terminated", "truncated", "no flag")] == [2, 5, 1]
    assert episodes.lengths == (LENGTH,) * EPISODES


def test_interleaved_episodes_are_put_in_order_first() -> None:
    data = tank()
    shuffled = data.take(torch.arange(ROWS).reshape(EPISODES, LENGTH).T.reshape(-1))
    assert on("order", shuffled).grade == Grade.OK
    assert on("ends", shuffled).grade == Grade.OK


def test_rows_out_of_order_are_worth_a_look() -> None:
    shuffled = tank().take(torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)))
    finding = on("order", shuffled)
    assert finding.grade == Grade.WARNING
    assert "do not begin where the row before arrived" in finding.what


def test_a_recording_without_episodes_is_worth_a_look() -> None:
    finding = on("order", tank(episodes=None, truncated=None))
    assert finding.grade == Grade.WARNING
    assert "episodes=" in finding.advice


# Stuck sensors.


def hold(column: Floats, first: int, last: int) -> Floats:
    column[2, first : last + 1] = column[2, first]
    return column


def test_a_stuck_sensor_is_found_with_its_name_and_rows() -> None:
    data = tank(**with_column(0, lambda column: hold(column, 10, 39)))
    finding = on("stuck sensor", data)
    assert finding.grade == Grade.ERROR
    assert "temperature reads exactly" in finding.what
    assert "rows 110 to 139, 7.5 % of the data" in finding.what

    (run,) = describe(data).runs
    assert (run.first, run.last, run.length, run.kind) == (110, 139, 30, "stuck")


def test_a_short_fault_is_worth_a_look() -> None:
    finding = on("stuck sensor", tank(**with_column(1, lambda column: hold(column, 10, 21))))
    assert finding.grade == Grade.WARNING
    assert "level reads exactly" in finding.what


def test_a_run_does_not_reach_across_episodes() -> None:
    def change(column: Floats) -> Floats:
        column[:, :5] = column[:, -5:] = 61.0
        return column

    assert on("stuck sensor", tank(**with_column(0, change))).grade == Grade.OK


def test_a_column_held_at_the_end_of_its_range_is_worth_a_look() -> None:
    def saturate(column: Floats) -> Floats:
        column[2, 10:40] = 2 * column.max()
        return column

    finding = on("stuck sensor", tank(**with_column(1, saturate)))
    assert finding.grade == Grade.WARNING
    assert "the end of its range" in finding.what


def test_a_set_point_that_rests_between_changes_is_not_stuck() -> None:
    rng = np.random.default_rng(1)
    levels = np.repeat(rng.uniform(0, 1, (EPISODES, 6)), 10, axis=1)[:, : LENGTH + 1]
    assert on("stuck sensor", tank(**with_column(1, lambda _: levels))).grade == Grade.OK


def test_a_plant_at_rest_is_told_from_a_stuck_sensor() -> None:
    columns = with_column(0, lambda column: hold(column, 10, 39))
    for array in columns.values():
        array[110:139, 1] = array[110, 1]
    actions = arrays()["actions"]
    actions[110:140] = 0.5
    finding = on("stuck sensor", tank(**columns, actions=actions))
    assert finding.grade == Grade.WARNING
    assert "nothing moves in rows 110 to" in finding.what


def test_the_rows_of_a_grid_have_no_order_to_be_stuck_in() -> None:
    description = describe(collect_grid(Pendulum(), (5, 5, 2)))
    assert description.finding("stuck sensor") is None
    assert description.finding("order") is None


# Time.


# Actions.


def test_a_saturated_action_is_worth_a_look() -> None:
    finding = on("actions at bounds", tank(actions=np.clip(3 * arrays()["actions"] - 1, 0, 1)))
    assert finding.grade == Grade.WARNING
    assert "heater is at 0 in" in finding.what


def test_the_levels_of_a_grid_are_not_saturation() -> None:
    finding = on("actions at bounds", tank(actions=np.arange(ROWS) % 2.0))
    assert (finding.grade, finding.what) == (Grade.OK, "heater has 2 levels")


def test_an_action_beyond_its_declared_bounds_stops_and_a_state_is_worth_a_look() -> None:
    data = tank()
    tight = replace(data, schema=replace(data.schema, bounds={"heater": (0.0, 0.9)}))
    finding = on("declared bounds", tight)
    assert finding.grade == Grade.ERROR
    assert "heater leaves [0, 0.9] in" in finding.what

    low = replace(data, schema=replace(data.schema, bounds={"level": (1.0, 9.0)}))
    assert on("declared bounds", low).grade == Grade.WARNING
    wide = replace(data, schema=replace(data.schema, bounds={"heater": (-1.0, 2.0)}))
    assert on("declared bounds", wide).grade == Grade.OK


# Starts.


def test_where_the_task_starts_is_stated_once_in_every_form() -> None:
    description = describe(tank())
    assert description.starts == start_note(tank()) == "the task starts in 1 declared state"
    assert description.to_dict()["starts"] == description.starts
    assert description.to_text().count(description.starts) == 1


def test_one_recording_may_start_anywhere_and_needs_no_look() -> None:
    data = tank(initial_states=None, episodes=[0] * ROWS, truncated=None)
    assert describe(data).finding("initial states") is None
    assert describe(data).starts.startswith("every row is a start")


def test_single_transitions_without_declared_starts_are_worth_a_look() -> None:
    finding = on("initial states", tank(initial_states=None, episodes=None, truncated=None))
    assert finding.grade == Grade.WARNING
    assert "starting_at" in finding.advice


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_dropped is -1"):
        describe(tank(), num_dropped=-1)


# The value, the text, the figure.


def test_the_same_data_give_the_same_text(clean: Description) -> None:
    assert str(describe(tank())) == str(clean)


def test_the_text_fits_a_terminal_and_names_every_column(clean: Description) -> None:
    lines = str(clean).splitlines()
    assert max(map(len, lines)) <= 100
    header = next(k for k, line in enumerate(lines) if line.startswith("Columns"))
    names = [line.split()[0] for line in lines[header + 2 : header + 6]]
    assert names == ["temperature", "level", "heater", "reward"]


def test_long_names_units_and_large_numbers_still_fit_a_terminal() -> None:
    data = tank(
        state_names=["plant_7_reactor_2_temperature_at_the_outlet_of_the_jacket", "level"],
        rewards=-1.2345678e-105 * np.arange(ROWS),
        actions=1e70 * arrays()["actions"],
    )
    schema = replace(data.schema, units={"level": "m", "heater": "kW"})
    text = str(describe(replace(data, schema=schema)))
    assert max(map(len, text.splitlines())) <= 100
    assert "…" in text
    assert "kW" in text


def test_three_rows_are_enough_for_a_description_and_a_figure() -> None:
    data = Transitions.from_arrays(
        [[0.0], [1.0], [2.5]], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0], [[1.0], [2.0], [3.0]]
    )
    description = describe(data)
    assert "3 transitions" in str(description)
    description.figure().canvas.draw()


def test_a_description_tells_its_grades_in_its_repr(clean: Description) -> None:
    assert repr(clean) == "Description(400 rows: 0 error, 0 warning, 11 ok)"


def test_the_figure_shows_every_column_and_every_measure_without_a_warning() -> None:
    data = tank(**with_column(0, lambda column: hold(column, 10, 39)))
    data = replace(data, schema=replace(data.schema, units={"level": "m"}))
    figure = describe(data).figure()
    figure.canvas.draw()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "temperature",
        "level",
        "heater",
        "reward",
        "actions at their bounds",
        "ends of 8 episodes",
        "temperature: stuck",
    ]
    assert figure.axes[1].get_xlabel() == "state in m"
    assert "stuck sensor" in figure.get_suptitle()


def test_the_figure_of_many_columns_says_which_it_leaves_out() -> None:
    rng = np.random.default_rng(0)
    states, arrived = rng.normal(size=(2, 60, 30))
    data = Transitions.from_arrays(states, rng.normal(size=(60, 12)), rng.normal(size=60), arrived)
    figure = describe(data).figure()
    figure.canvas.draw()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert "the first 20 of 30 state columns" in figure.get_suptitle()
    assert {"s19", "a11", "reward"} <= set(titles)
    assert "s20" not in titles


@pytest.mark.parametrize(
    "changes",
    [
        {"actions": np.full(ROWS, 0.3)},
        {"states": np.zeros((ROWS, 2)), "next_states": np.zeros((ROWS, 2))},
        {"truncated": None, "episodes": None},
        {"episodes": np.arange(ROWS)},
    ],
)
def test_the_figure_of_odd_data_renders_without_a_warning(changes: dict[str, Any]) -> None:
    describe(tank(**changes)).figure().canvas.draw()


def test_a_figure_without_matplotlib_says_what_to_install(
    clean: Description, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[figures\]"):
        clean.figure()


def test_importing_the_report_does_not_import_matplotlib() -> None:
    script = "import sys, nopg.inspect; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_described() -> None:
    rows = torch.arange(100_000) % ROWS
    data = tank().take(rows)
    noise = torch.randn(100_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    description = describe(replace(data, states=data.states + 0.05 * noise, episodes=None))
    assert description.num_rows == 100_000
