"""The states of a guard: one test per transition, and what each rule does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deploy.known_places import known_around, radii_at
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, GuardRules, RuntimeController
from nopg.errors import ArgumentError, NoActionError

INSIDE, OUTSIDE, NAN = [0.3, 0.0], [3.0, 0.0], [np.nan, 0.0]
Numbers = npt.NDArray[np.float64]


def level_at(unknown: float) -> float:
    """Return the level above 0.3 with an unknown share."""
    return 0.3 + 0.1 * radii_at(unknown)


def robot(**columns: Any) -> RuntimeController:
    """Return valve = 2·level in [0, 1], known around a level of 0.3 and an angle of 0."""
    found = Columns(("level", "angle"), ("valve",), bounds={"valve": (0.0, 1.0)}, **columns)
    gain = np.zeros((1, len(found.features)))
    gain[0, 0] = 2.0
    support = known_around(found, [0.3, 0.0], 0.1)
    return RuntimeController(SavedController(found, {"kind": "linear"}, {"gain": gain}, support, "here"))


class Fallback:
    """An action that can be taken away."""

    def __init__(self) -> None:
        self.works = True

    def __call__(self, observation: Numbers) -> list[float]:
        if not self.works:
            raise OSError("no connection")
        return [0.5]


def guarded(fallback: Callable[[Numbers], npt.ArrayLike] | None = None, **rules: Any) -> GuardedController:
    return GuardedController(robot(), fallback=fallback or Fallback(), rules=GuardRules(**rules))


def handovers(guard: GuardedController) -> list[tuple[str, str, str]]:
    return [(one.before, one.after, one.reason) for one in guard.log]


def test_from_the_start_the_policy_acts_at_once_up_to_the_upper_limit() -> None:
    guard = guarded()
    guard.act([level_at(0.49), 0.0])
    assert handovers(guard) == [("start", "learned", "inside the data")]


def test_from_the_start_to_the_fallback() -> None:
    guard = guarded()
    guard.act(OUTSIDE)
    assert handovers(guard) == [("start", "fallback", "outside the data")]


def test_from_the_start_to_the_last_resort() -> None:
    guard = GuardedController(robot(), rules=GuardRules(last_resort=[0.25]))
    assert guard.act(NAN).action.tolist() == [0.25]
    assert handovers(guard) == [("start", "last resort", "missing: level; no fallback")]


def test_at_the_start_nobody_acts_if_nobody_can() -> None:
    guard = GuardedController(robot())
    with pytest.raises(NoActionError):
        guard.act(OUTSIDE)
    assert guard.log == ()
    assert guard.counts.by_reason == {"outside the data; no fallback": 1}
    guard.reset(applied=[0.7])
    assert guard.act(OUTSIDE).action.tolist() == [0.7]


def test_from_the_policy_to_the_fallback_at_once() -> None:
    guard = guarded()
    guard.act(INSIDE, time=1.0)
    decision = guard.act([level_at(0.51), 0.0], time=2.0)
    assert (decision.source, decision.action.tolist()) == ("fallback", [0.5])
    last = guard.log[-1]
    assert (last.step, last.time, last.before, last.after) == (1, 2.0, "learned", "fallback")
    assert last.unknown == pytest.approx(0.51)


def test_from_the_policy_to_the_last_resort_which_holds_the_action() -> None:
    fallback = Fallback()
    guard = guarded(fallback)
    fallback.works = False
    guard.act(INSIDE)
    assert guard.act(OUTSIDE).action.tolist() == [0.6]
    assert handovers(guard)[-1] == (
        "learned",
        "last resort",
        "outside the data; the fallback raised OSError",
    )


def test_from_the_fallback_to_the_policy_after_the_dwell_time_and_below_the_lower_limit() -> None:
    guard = guarded(dwell=3)
    guard.act(OUTSIDE)
    assert [guard.act(INSIDE).reason for _ in range(2)] == ["waiting to return"] * 2
    between = guard.act([level_at(0.26), 0.0])
    assert (between.source, between.reason) == ("fallback", "waiting to return")
    assert guard.act([level_at(0.24), 0.0]).source == "learned"
    assert handovers(guard)[-1] == ("fallback", "learned", "inside the data")


def test_the_defaults_wait_ten_steps_and_return_at_half_the_limit() -> None:
    guard = guarded()
    sources = [guard.act(place).source for place in (OUTSIDE, *[INSIDE] * 10)]
    assert sources == ["fallback"] * 10 + ["learned"]
    assert (guard.most_unknown, guard.return_unknown) == (0.5, 0.25)


def test_between_fallback_and_last_resort_at_once_in_both_directions() -> None:
    fallback = Fallback()
    guard = guarded(fallback, dwell=2)
    guard.act(OUTSIDE)
    fallback.works = False
    assert guard.act(OUTSIDE).source == "last resort"
    fallback.works = True
    assert guard.act(OUTSIDE).source == "fallback"
    assert [(one.before, one.after) for one in guard.log[1:]] == [
        ("fallback", "last resort"),
        ("last resort", "fallback"),
    ]


def test_from_the_last_resort_to_the_policy_after_the_dwell_time() -> None:
    guard = GuardedController(robot(), rules=GuardRules(last_resort=[0.25], dwell=2))
    sources = [guard.act(place).source for place in (NAN, INSIDE, INSIDE)]
    assert sources == ["last resort", "last resort", "learned"]


def test_a_reset_leads_to_the_start_and_keeps_the_log() -> None:
    guard = guarded()
    guard.act(OUTSIDE)
    guard.reset()
    assert guard.act(INSIDE).source == "learned"
    assert [(one.step, one.before, one.after) for one in guard.log] == [
        (0, "start", "fallback"),
        (1, "start", "learned"),
    ]


def test_noise_at_the_edge_switches_at_most_once_per_dwell_time() -> None:
    guard, rng, edge = guarded(), np.random.default_rng(0), level_at(0.5)
    for noise in rng.normal(0.0, 1e-9, 1_000):
        guard.act([edge + noise, 0.0])
    assert len(guard.log) <= 2  # without hysteresis 999


def test_a_handover_takes_the_steps_of_the_transfer_in_equal_parts_and_the_first_action_none() -> None:
    guard = guarded(transfer=4, dwell=6)
    actions = [guard.act(place).action[0] for place in (INSIDE, *[OUTSIDE] * 6, *[INSIDE] * 5)]
    down, up = [0.6, 0.575, 0.55, 0.525, 0.5], [0.525, 0.55, 0.575, 0.6, 0.6]
    assert actions == pytest.approx([*down, 0.5, 0.5, *up])


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([0.0, 1.0, 1.0], "the time does not advance"),
        ([0.0, 1.0, 0.5], "the clock went back"),
        ([0.0, 1.0, 3.1], "later than the deadline"),
        ([0.0, 1.0, None], "no time stamp"),
        ([0.0, 1.0, np.nan], "no time stamp"),
    ],
)
def test_time_stamps_that_fail_lead_to_the_fallback(times: list[float | None], reason: str) -> None:
    guard = guarded(deadline=2.0)
    decisions = [guard.act(INSIDE, time=time) for time in times]
    assert [one.source for one in decisions] == ["learned", "learned", "fallback"]
    assert decisions[-1].reason == reason
    unchecked = guarded()
    assert {unchecked.act(INSIDE, time=time).source for time in times} == {"learned"}


def test_a_measurement_older_than_the_deadline_leads_to_the_fallback_however_evenly_it_comes() -> None:
    guard = guarded(deadline=2.0)
    sources = [
        guard.act(INSIDE, time=0.1 * k, now=0.1 * k + late).source for k, late in enumerate((1.9, 2.1))
    ]
    assert sources == ["learned", "fallback"]
    assert guard.log[-1].reason == "later than the deadline"


def test_a_column_without_change_leads_to_the_fallback_by_its_name() -> None:
    guard = guarded(frozen={"level": 3})
    levels = [0.30, 0.31, 0.31, np.nan, 0.31, 0.31, 0.31]
    reasons = [guard.act([level, 0.0]).reason for level in levels]
    assert reasons[:4] == ["inside the data"] * 3 + ["missing: level"]
    assert reasons[4:] == ["waiting to return", "frozen: level", "frozen: level"]


def test_one_number_of_steps_is_for_all_but_exogenous_columns() -> None:
    columns = robot(exogenous={"angle": "hold"}).columns
    assert GuardRules(frozen=5).frozen_limits(columns).tolist() == [5.0, np.inf]


@pytest.mark.parametrize("angle", [1.1e15, -1.1e15, np.nan, np.inf])
def test_an_angle_without_direction_is_missing(angle: float) -> None:
    controller = robot(angles={"angle": 2 * np.pi})
    guard = GuardedController(controller, fallback=lambda seen: [0.5] if np.isnan(seen[1]) else [0.9])
    assert guard.act([0.3, 2 * np.pi]).source == "learned"
    decision = guard.act([0.3, angle])
    assert (decision.reason, decision.action.tolist(), decision.unknown) == ("missing: angle", [0.5], 1.0)


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_masked_value_is_missing(kind: type) -> None:
    guard = guarded()
    decision = guard.act(np.ma.MaskedArray(np.array([0.3, 0.0]).astype(kind), mask=[True, False]))
    assert decision.reason == "missing: level"


def test_an_applied_action_that_is_not_finite_leads_to_the_fallback_and_is_no_reference() -> None:
    guard = GuardedController(robot(), fallback=Fallback(), max_change=0.05)
    guard.act(INSIDE)
    decision = guard.act(INSIDE, applied=[np.nan])
    assert (decision.reason, decision.action[0]) == ("the action applied is not finite", pytest.approx(0.55))
    with pytest.raises(ArgumentError, match="give 1 numbers"):
        guard.act(INSIDE, applied=[0.1, 0.2])


def test_log_and_counts_are_read_only_and_the_log_is_bounded() -> None:
    guard = guarded(dwell=1, log_size=5)
    for k in range(20):
        guard.act(OUTSIDE if k % 2 else INSIDE)
    assert [one.step for one in guard.log] == [15, 16, 17, 18, 19]
    assert guard.counts.by_source == {"learned": 10, "fallback": 10, "last resort": 0}
    assert guard.counts.by_reason == {"outside the data": 10}
    with pytest.raises(TypeError):
        guard.counts.by_source["learned"] = 0  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        guard.log[0].step = 3  # type: ignore[misc]
    for name in ("log", "counts", "most_unknown", "rules", "low", "max_change"):
        with pytest.raises(AttributeError):
            setattr(guard, name, None)


def test_limits_do_not_change_after_the_guard_was_made() -> None:
    controller = robot()
    guard = GuardedController(controller, fallback=lambda _: [7.0])
    controller.high[:] = 9.0
    assert guard.act(OUTSIDE).action.tolist() == [1.0]
    with pytest.raises(ValueError, match="read-only"):
        guard.high[:] = 9.0


def test_a_second_call_during_the_first_is_refused_and_changes_nothing() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(observation: Numbers) -> list[float]:
        entered.set()
        leave.wait(10.0)
        return [0.5]

    guard = guarded(slow)
    thread = threading.Thread(target=guard.act, args=(OUTSIDE,))
    thread.start()
    assert entered.wait(10.0)
    with pytest.raises(ArgumentError, match="one guard per control loop"):
        guard.act(INSIDE)
    leave.set()
    thread.join()
    assert handovers(guard) == [("start", "fallback", "outside the data")]


def test_a_guard_that_is_loaded_continues_in_the_middle_of_a_transfer() -> None:
    rules: dict[str, Any] = {"transfer": 4, "dwell": 5, "frozen": 4, "deadline": 2.0}
    one, other = guarded(**rules), guarded(**rules)
    feed = [INSIDE, OUTSIDE, OUTSIDE, *[INSIDE] * 8]
    for k, place in enumerate(feed):
        if k == 3:
            other.load_state_dict(one.state_dict())
        wanted = one.act(place, time=float(k))
        if k >= 3:
            found = other.act(place, time=float(k))
            assert (found.source, found.reason) == (wanted.source, wanted.reason)
            assert found.action.tolist() == wanted.action.tolist()
    broken = one.state_dict() | {"handover": np.array([7.0, 0.0, 0.0])}
    with pytest.raises(ArgumentError, match="handover begins with 7"):
        other.load_state_dict(broken)


@pytest.mark.parametrize(
    "rules",
    [
        {"dwell": 0},
        {"dwell": 2.5},
        {"transfer": 0},
        {"log_size": True},
        {"deadline": 0.0},
        {"deadline": np.nan},
        {"frozen": 0},
        {"frozen": {"level": 0}},
        {"frozen": {"other": 3}},
        {"return_unknown": 0.6},
        {"return_unknown": np.nan},
        {"last_resort": [1.5]},
        {"last_resort": [np.nan]},
        {"last_resort": [0.1, 0.1]},
    ],
)
def test_rules_outside_their_range_are_refused_at_once(rules: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        guarded(**rules)


def test_a_transfer_between_levels_is_refused() -> None:
    with pytest.raises(ArgumentError, match="levels"):
        GuardedController(robot(levels={"valve": (0.0, 1.0)}), rules=GuardRules(transfer=2))
