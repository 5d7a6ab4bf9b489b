"""Streams of measurements: states as in the log, start-ups, missing values, and the memory."""

from pathlib import Path

import numpy as np
import pytest

from deploy.native import with_memory
from deploy.stream_cases import derived_log, faulty_stream, log
from nopg._columns import Columns, Derived
from nopg.deploy import GuardedController, GuardRules, RuntimeController, StateStream
from nopg.errors import ArgumentError, NoActionError, ObservationError

NAN = float("nan")


def columns(**settings: object) -> Columns:
    derived = {
        "level_lag1": Derived("level", "level"),
        "valve_lag1": Derived("0.5", "valve"),
        "valve_lag2": Derived("0.5", "valve_lag1"),
        "total": Derived("0", "total + 2.0 * (level - 1)"),
    }
    return Columns(("level", *derived), ("valve",), derived=derived, interval=2.0, **settings)  # type: ignore[arg-type]


@pytest.fixture
def robot() -> RuntimeController:
    return with_memory()


def test_replaying_a_log_gives_the_states_of_its_derived_columns() -> None:
    data, late = log(), derived_log()
    width = len(late.schema.measured)
    stream, found = StateStream(late.schema), []
    for row, measured in enumerate(data.states.numpy()):
        follows = bool(data.continues[row])
        if not follows:
            stream.reset()
        found.append(stream.update(measured, data.actions[row - 1].numpy() if follows else None))
        stream.record(None)
    first = np.flatnonzero(~data.continues.numpy())
    kept = [row for row in range(len(data)) if row - first[first <= row].max() >= 3]
    states, wanted = np.array(found)[kept], late.states.numpy()
    assert states.shape == wanted.shape
    total = late.schema.states.index("total")
    others = [k for k in range(width, states.shape[1]) if k != total]
    # Lags and differences are one number or one subtraction; an integral is summed in another order.
    assert np.array_equal(states[:, [*range(width), *others]], wanted[:, [*range(width), *others]])
    assert np.abs(states[:, total] - wanted[:, total]).max() < 1e-12


def test_a_log_in_which_values_are_missing_within_their_hold_is_a_log_of_held_values() -> None:
    stream, plain = StateStream(columns(hold={"level": 2})), StateStream(columns())
    levels = [1.0, 2.0, NAN, NAN, 3.0, NAN, 4.0]
    filled = [1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    for level, held in zip(levels, filled, strict=True):
        assert stream.update([level], [0.1]).tolist() == plain.update([held], [0.1]).tolist()


def test_a_value_missing_for_longer_than_its_hold_is_refused_and_the_memory_starts_anew() -> None:
    stream = StateStream(columns(hold={"level": 1}))
    started = []
    for level in (3.0, NAN, NAN, NAN, 5.0, 6.0):
        state = stream.update([level], [0.1])
        started.append(bool(stream.started))
        if started == [True, False, True]:
            assert np.isnan(state).all()
    assert started == [True, False, True, True, True, False]
    assert state.tolist() == [6.0, 5.0, 0.1, 0.1, 8.0]


@pytest.mark.parametrize("number", [np.inf, -np.inf])
def test_an_infinite_value_is_not_held_and_never_stays_in_the_memory(number: float) -> None:
    stream = StateStream(columns(hold={"level": 5}))
    stream.update([1.0])
    assert not np.isfinite(stream.update([number], [0.1])).any()
    assert stream.update([2.0], [0.2]).tolist() == [2.0, 2.0, 0.2, 0.2, 0.0]


def test_a_gap_is_more_than_five_intervals_or_a_clock_that_goes_back() -> None:
    stream, started = StateStream(columns()), []
    for time in (0.0, 10.0, 20.0, 30.1, 32.0, 31.0, 33.0, None, 99.0):
        stream.update([1.0], [0.1], time)
        started.append(bool(stream.started))
    assert started == [True, False, False, True, False, True, False, False, False]


def test_at_a_start_lags_of_actions_have_the_known_action_else_the_constant_of_their_formula() -> None:
    stream = StateStream(columns())
    assert stream.update([3.0]).tolist() == [3.0, 3.0, 0.5, 0.5, 0.0]
    stream.reset(applied=[0.9])
    assert stream.update([3.0]).tolist() == [3.0, 3.0, 0.9, 0.9, 0.0]
    stream.reset()
    assert stream.update([3.0], applied=[0.8]).tolist() == [3.0, 3.0, 0.8, 0.8, 0.0]
    stream.record([0.7])
    stream.update([NAN])
    stream.record([0.6])
    assert stream.update([3.0]).tolist() == [3.0, 3.0, 0.6, 0.6, 0.0]  # recorded during the failure
    stream.record([0.4])
    stream.update([3.0], time=0.0)
    stream.record([0.3])
    assert stream.update([3.0], time=99.0).tolist() == [3.0, 3.0, 0.5, 0.5, 0.0]  # nobody knows after a gap
    assert stream.update([3.0], applied=[0.2], time=199.0).tolist() == [3.0, 3.0, 0.2, 0.2, 0.0]


def test_an_action_that_is_needed_and_not_known_is_asked_for() -> None:
    stream = StateStream(columns())
    stream.update([3.0])
    with pytest.raises(ArgumentError, match=r"give applied=\(valve\)"):
        stream.update([4.0])
    assert stream.update([4.0], [0.1]).tolist() == [4.0, 3.0, 0.1, 0.5, 4.0]


def test_a_memory_that_is_saved_and_loaded_continues_as_if_nothing_had_happened(tmp_path: Path) -> None:
    feed = faulty_stream(120)
    schema = derived_log().schema
    one, other = StateStream(schema), StateStream(schema)
    for t, measured in enumerate(feed.measured):
        state = one.update(measured, [0.1, -0.2], feed.times[t])
        np.savez(tmp_path / "memory.npz", **one.state_dict())  # type: ignore[arg-type]
        assert np.array_equal(state, other.update(measured, [0.1, -0.2], feed.times[t]), equal_nan=True)
        other = StateStream(schema)
        other.load_state_dict(np.load(tmp_path / "memory.npz"))
    with pytest.raises(ArgumentError, match="age of a memory"):
        other.load_state_dict({**one.state_dict(), "age": np.zeros(7)})
    with pytest.raises(ArgumentError, match="has"):
        other.load_state_dict({"state": np.zeros(3)})


def test_many_plants_side_by_side_are_as_many_alone_each_with_its_own_starts() -> None:
    schema, feed = derived_log().schema, faulty_stream(300)
    rows = np.stack([np.roll(feed.measured, 17 * k, axis=0) for k in range(4)], axis=1)  # (T, 4, 2)
    together, alone = StateStream(schema, batch=4), [StateStream(schema) for _ in range(4)]
    rng = np.random.default_rng(0)
    for t in range(300):
        applied = rng.normal(size=(4, 2))
        begins = rng.random(4) < 0.05
        together.reset(rows=begins)
        for k in np.flatnonzero(begins):
            alone[k].reset()
        wanted = [one.update(rows[t, k], applied[k], feed.times[t]) for k, one in enumerate(alone)]
        # Sums of one row and of several may round differently.
        np.testing.assert_allclose(
            together.update(rows[t], applied, feed.times[t]), wanted, rtol=0, atol=1e-12
        )
        assert together.started.tolist() == [bool(one.started) for one in alone]


def test_a_wrong_observation_is_named_by_its_measured_columns_and_leaves_the_memory(
    robot: RuntimeController,
) -> None:
    stream = robot.stream()
    stream.act([0.1, 0.2])
    before = stream.state_dict()
    for wrong in ([0.1], [[0.1, 0.2]], [0.1] * 9):
        with pytest.raises(ObservationError, match=r"an observation has 2 numbers \(level, angle\)"):
            stream.act(wrong)
    with pytest.raises(ObservationError, match="made of numbers"):
        stream.act(["a", "b"])
    with pytest.raises(ArgumentError, match="the action applied is"):
        stream.act([0.1, 0.2], [np.inf, 0.0])
    after = stream.state_dict()
    assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)
    with pytest.raises(
        ObservationError, match=r"use stream\(\) to act on observations of 2 \(level, angle\)"
    ):
        robot([0.1, 0.2])


def test_a_stream_acts_on_its_state_and_keeps_the_action_it_gave(robot: RuntimeController) -> None:
    stream, states = robot.stream(), StateStream(robot.columns)
    for measured in ([0.1, 0.2], [0.2, 0.1], [0.0, 0.3]):
        state = states.update(measured)
        action = stream.act(measured)
        assert action.tolist() == robot(state).tolist()
        states.record(action)
    assert stream.state.tolist() == states.state.tolist()
    with pytest.raises(ObservationError, match="level is nan"):
        robot.stream().act([NAN, 0.0])


def test_a_guard_keeps_the_action_after_fallback_and_limits_in_its_memory(robot: RuntimeController) -> None:
    asked = []

    def fallback(observation: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
        asked.append(observation.tolist())
        return [0.9, 0.9]

    guard = GuardedController(robot, fallback=fallback, rules=GuardRules(max_change=0.1))
    guard.reset(applied=[0.0, 0.0])
    at = robot.columns.states.index("valve_lag1")
    first = guard.act([0.1, 0.2])
    assert guard.states.state[at : at + 3].tolist() == [0.0] * 3
    far = guard.act([50.0, 0.2])
    assert (far.source, asked) == ("fallback", [[50.0, 0.2]])
    assert guard.states.state[at] == first.action[0]
    assert np.abs(far.action - first.action).max() <= 0.1 + 1e-12
    guard.act([0.1, 0.2], applied=[-0.5, -0.5])
    assert guard.states.state[at : at + 2].tolist() == [-0.5, first.action[0]]
    assert guard.applied is not None
    assert np.abs(guard.applied + 0.5).max() <= 0.1 + 1e-12  # the real action is the reference


def test_a_missing_value_goes_to_the_fallback_only_beyond_its_hold(robot: RuntimeController) -> None:
    rules = GuardRules(dwell=2, most_unknown=1.0, return_unknown=1.0)
    guard = GuardedController(robot, fallback=lambda _: [0.0, 0.0], rules=rules)
    guard.act([0.1, 0.2])
    sources = [guard.act([NAN, 0.2]).source for _ in range(4)]
    assert sources == ["learned", "learned", "fallback", "fallback"]
    assert guard.act([0.1, 0.2]).source == "learned"
    alone = GuardedController(robot, rules=GuardRules(most_unknown=1.0))
    with pytest.raises(NoActionError, match="no fallback"):
        alone.act([NAN, 0.2])
    assert alone.act([0.1, 0.2]).source == "learned"
