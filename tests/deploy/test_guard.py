"""A controller on a plant: fallback, limits, states and rules of the guard, and broken sensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from deploy.known_places import known_around, radii_at
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, GuardRules, RuntimeController
from nopg.errors import ArgumentError, NoActionError, ObservationError

INSIDE, OUTSIDE, NAN = [0.3, 0.0], [3.0, 0.0], [np.nan, 0.0]
Numbers = npt.NDArray[np.float64]


def tank(bounds: dict[str, tuple[float, float]] | None = None) -> RuntimeController:
    """Return valve = 2·level, pump = −level, known around a level of 0.3."""
    columns = Columns(
        ("level",), ("valve", "pump"), bounds={"valve": (0.0, 1.0)} if bounds is None else bounds
    )
    support = known_around(columns, [0.3], 0.1)
    return RuntimeController(
        SavedController(columns, {"kind": "linear"}, {"gain": np.array([[2.0], [-1.0]])}, support)
    )


def robot(**columns: Any) -> RuntimeController:
    """Return valve = 2·level in [0, 1], known around a level of 0.3 and an angle of 0."""
    found = Columns(("level", "angle"), ("valve",), bounds={"valve": (0.0, 1.0)}, **columns)
    gain = np.zeros((1, len(found.features)))
    gain[0, 0] = 2.0
    support = known_around(found, [0.3, 0.0], 0.1)
    return RuntimeController(SavedController(found, {"kind": "linear"}, {"gain": gain}, support))


class Fallback:
    """An action that can be taken away, and the observations for which it was asked."""

    def __init__(self, *action: float) -> None:
        self.action, self.works, self.asked = action, True, list[list[float]]()

    def __call__(self, observation: Numbers) -> Sequence[float]:
        self.asked.append(observation.tolist())
        if not self.works:
            raise OSError("no connection")
        return self.action


def level_at(unknown: float) -> float:
    """Return the level above 0.3 with an unknown share."""
    return 0.3 + 0.1 * radii_at(unknown)


def guarded(fallback: Callable[[Numbers], npt.ArrayLike] | None = None, **rules: Any) -> GuardedController:
    return GuardedController(robot(), fallback=fallback or Fallback(0.5), rules=GuardRules(**rules))


def two(fallback: Fallback | None = None, **rules: Any) -> GuardedController:
    return GuardedController(tank(), fallback=fallback, rules=GuardRules(**rules))


def test_where_the_data_know_the_state_the_policy_acts_and_elsewhere_the_fallback() -> None:
    fallback = Fallback(0.5, 0.0)
    guard = two(fallback)
    decision = guard.act([0.3])
    assert (decision.source, decision.action.tolist()) == ("learned", [0.6, -0.3])
    assert decision.unknown == pytest.approx(1e-4 / (1 + 1e-4))
    assert not fallback.asked
    decision = guard.act([3.0])
    assert (decision.source, decision.action.tolist()) == ("fallback", [0.5, 0.0])
    assert decision.unknown > 0.999
    assert fallback.asked == [[3.0]]


def test_the_limit_on_the_unknown_share_is_the_one_given() -> None:
    half = level_at(0.5)
    guard = two(Fallback(0.5, 0.0))
    assert guard.act([half - 1e-6]).source == "learned"
    assert guard.act([half + 1e-6]).source == "fallback"
    assert two(Fallback(0.5, 0.0), most_unknown=0.0).act([0.3]).source == "fallback"
    assert two(most_unknown=1.0).act([30.0]).source == "learned"


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_goes_to_the_fallback_as_nan_and_never_to_the_policy(number: float) -> None:
    fallback = Fallback(0.5, 0.0)
    decision = two(fallback, most_unknown=1.0).act([number])
    assert (decision.source, decision.unknown, decision.reason) == ("fallback", 1.0, "missing: level")
    assert np.isnan(fallback.asked[0]).all()
    with pytest.raises(NoActionError):
        two(most_unknown=1.0).act([number])


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_masked_value_is_missing(kind: type) -> None:
    values: Any = np.ma.MaskedArray(np.array([0.3, 0.0]).astype(kind), mask=[True, False])
    assert guarded().act(values).reason == "missing: level"


@pytest.mark.parametrize("turns", [4.6e12, -4.6e12, 5e13, np.nan, np.inf])
def test_an_angle_without_direction_is_missing(turns: float) -> None:
    controller = robot(angles={"angle": 2 * np.pi})
    guard = GuardedController(controller, fallback=lambda seen: [0.5] if np.isnan(seen[1]) else [0.9])
    assert guard.act([0.3, 2 * np.pi]).source == "learned"
    decision = guard.act([0.3, 2 * np.pi * turns])
    assert (decision.reason, decision.action.tolist(), decision.unknown) == ("missing: angle", [0.5], 1.0)


@pytest.mark.parametrize("observation", [[0.3, 0.3], [[0.3]], 0.3, [], ["high"], None])
def test_an_observation_of_another_shape_is_a_mistake_whatever_the_fallback(observation: Any) -> None:
    fallback = Fallback(0.5, 0.0)
    with pytest.raises(ObservationError):
        two(fallback).act(observation)
    assert not fallback.asked


@pytest.mark.parametrize("answer", [[np.nan, 0.0], [0.5], [[0.5, 0.0]], None, "stop", [np.inf, 0.0]])
def test_where_the_fallback_gives_no_action_the_last_one_is_held(answer: Any) -> None:
    guard = GuardedController(tank(), fallback=lambda observation: answer)
    guard.act([0.3])
    decision = guard.act([3.0])
    assert (decision.source, decision.action.tolist()) == ("last resort", [0.6, -0.3])
    assert decision.reason == "outside the data; the fallback gave no finite action"


def test_every_action_is_clipped_whoever_wants_it() -> None:
    assert two(most_unknown=1.0).act([0.6]).action.tolist() == [1.0, -0.6]
    assert two(Fallback(7.0, 7.0)).act([9.0]).action.tolist() == [1.0, 7.0]  # the pump has no bounds


def test_an_action_moves_by_at_most_the_change_allowed_per_column() -> None:
    guard = two(Fallback(1.0, 1.0), max_change=[0.1, np.inf], dwell=1)
    assert guard.act([0.3]).action.tolist() == [0.6, -0.3]  # the first is free
    assert guard.act([0.1]).action == pytest.approx([0.5, -0.1])  # 0.2 is wanted
    assert guard.act([9.0]).action == pytest.approx([0.6, 1.0])  # of the fallback too
    assert guard.act([0.3]).action == pytest.approx([0.6, -0.3])


def test_a_reset_forgets_the_last_action_or_begins_at_the_one_on_the_plant() -> None:
    guard = two(max_change=0.1)
    guard.act([0.3]).action[:] = 99.0  # who changes a decision changes nothing of the guard
    assert np.array_equal(guard.applied, [0.6, -0.3])  # type: ignore[arg-type]
    guard.reset()
    assert guard.applied is None
    assert guard.act([0.2]).action.tolist() == [0.4, -0.2]
    guard.reset(applied=[0.0, 0.0])
    assert guard.act([0.3]).action == pytest.approx([0.1, -0.1])
    with pytest.raises(ArgumentError, match="2 finite numbers"):
        guard.reset(applied=[np.nan, 0.0])


@hypothesis.given(
    observations=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
    change=st.floats(1e-3, 10.0),
    wanted=st.floats(-1e6, 1e6),
)
def test_whatever_happens_actions_are_finite_within_limits_and_move_slowly(
    observations: list[float], change: float, wanted: float
) -> None:
    controller = tank({"valve": (0.0, 1.0), "pump": (-2.0, 2.0)})
    rules = GuardRules(max_change=change)
    guard = GuardedController(controller, fallback=Fallback(wanted, -wanted), rules=rules)
    last = np.array([0.5, 0.0])
    guard.reset(applied=last)
    for level in observations:
        decision = guard.act([level])
        assert np.isfinite(decision.action).all()
        assert ((decision.action >= controller.low) & (decision.action <= controller.high)).all()
        assert (np.abs(decision.action - last) <= change * (1 + 1e-12)).all()
        assert 0.0 <= decision.unknown <= 1.0
        assert decision.source == "fallback" or decision.unknown <= 0.5
        last = decision.action


# The table of states: one test per transition.


def test_from_the_start_to_the_last_resort() -> None:
    guard = GuardedController(robot(), rules=GuardRules(last_resort=[0.25]))
    decision = guard.act(NAN)
    assert (decision.source, decision.action.tolist()) == ("last resort", [0.25])
    assert decision.reason == "missing: level; no fallback"


def test_at_the_start_nobody_acts_if_nobody_can_and_the_error_says_what_to_do() -> None:
    guard = GuardedController(robot())
    with pytest.raises(
        NoActionError, match=r"outside the data; no fallback\. Give a fallback, a last resort"
    ):
        guard.act(OUTSIDE)
    assert guard.act(INSIDE).source == "learned"  # nobody acted, so there is nothing to wait for
    guard.reset(applied=[0.7])
    assert guard.act(OUTSIDE).action.tolist() == [0.7]


def test_from_the_policy_to_the_fallback_at_once() -> None:
    guard = guarded()
    guard.act(INSIDE)
    decision = guard.act([level_at(0.51), 0.0])
    assert (decision.source, decision.action.tolist()) == ("fallback", [0.5])
    assert decision.unknown == pytest.approx(0.51)


def test_from_the_policy_to_the_last_resort_which_holds_the_action_and_names_the_error() -> None:
    fallback = Fallback(0.5)
    guard = guarded(fallback)
    fallback.works = False
    guard.act(INSIDE)
    decision = guard.act(OUTSIDE)
    assert (decision.source, decision.action.tolist()) == ("last resort", [0.6])
    assert decision.reason == "outside the data; the fallback raised OSError"


def test_from_the_fallback_to_the_policy_after_the_dwell_time_and_below_the_lower_limit() -> None:
    guard = guarded(dwell=3)
    guard.act(OUTSIDE)
    assert [guard.act(INSIDE).reason for _ in range(2)] == ["waiting to return"] * 2
    between = guard.act([level_at(0.26), 0.0])
    assert (between.source, between.reason) == ("fallback", "waiting to return")
    assert guard.act([level_at(0.24), 0.0]).source == "learned"


def test_the_defaults_wait_ten_steps_and_return_at_half_the_limit() -> None:
    guard = guarded()
    sources = [guard.act(place).source for place in (OUTSIDE, *[INSIDE] * 10)]
    assert sources == ["fallback"] * 10 + ["learned"]
    assert (guard.rules.most_unknown, guard.limits.return_unknown) == (0.5, 0.25)


def test_between_fallback_and_last_resort_at_once_in_both_directions() -> None:
    fallback = Fallback(0.5)
    guard, sources = guarded(fallback, dwell=2), []
    for fallback.works in (True, False, True):
        sources.append(guard.act(OUTSIDE).source)
    assert sources == ["fallback", "last resort", "fallback"]


def test_from_the_last_resort_to_the_policy_after_the_dwell_time() -> None:
    guard = GuardedController(robot(), rules=GuardRules(last_resort=[0.25], dwell=2))
    sources = [guard.act(place).source for place in (NAN, INSIDE, INSIDE)]
    assert sources == ["last resort", "last resort", "learned"]


def test_noise_at_the_edge_switches_at_most_once_per_dwell_time() -> None:
    guard, rng, edge = guarded(), np.random.default_rng(0), level_at(0.5)
    sources = [guard.act([edge + noise, 0.0]).source for noise in rng.normal(0.0, 1e-9, 1_000)]
    assert sum(one != other for one, other in pairwise(sources)) <= 1  # without hysteresis 999


# The rules.


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
    late = [guard.act(INSIDE, time=0.1 * k, now=0.1 * k + age) for k, age in enumerate((1.9, 2.1))]
    assert [one.source for one in late] == ["learned", "fallback"]
    assert late[-1].reason == "later than the deadline"


def test_a_column_without_change_leads_to_the_fallback_by_its_name() -> None:
    guard = guarded(frozen={"level": 3})
    levels = [0.30, 0.31, 0.31, np.nan, 0.31, 0.31, 0.31]
    reasons = [guard.act([level, 0.0]).reason for level in levels]
    assert reasons[:4] == ["inside the data"] * 3 + ["missing: level"]
    assert reasons[4:] == ["waiting to return", "frozen: level", "frozen: level"]


def test_an_applied_action_that_is_not_finite_leads_to_the_fallback_and_is_no_reference() -> None:
    guard = guarded(max_change=0.05)
    guard.act(INSIDE)
    decision = guard.act(INSIDE, applied=[np.nan])
    assert (decision.reason, decision.action[0]) == ("the action applied is not finite", pytest.approx(0.55))
    with pytest.raises(ArgumentError, match="give 1 numbers"):
        guard.act(INSIDE, applied=[0.1, 0.2])


def test_what_a_guard_shows_cannot_change_it() -> None:
    guard = guarded(Fallback(7.0), last_resort=[0.25])
    with pytest.raises(FrozenInstanceError):
        guard.rules.dwell = 3  # type: ignore[misc]
    for values in (guard.high, guard.controller.high, guard.limits.frozen, guard.limits.last_resort):
        assert values is not None
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 9.0


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
    assert guard.applied == pytest.approx([0.5])


@pytest.mark.parametrize(
    "rules",
    [
        {"dwell": 0},
        {"dwell": 2.5},
        {"transfer": 0},
        {"dwell": True},
        {"deadline": 0.0},
        {"deadline": np.nan},
        {"frozen": 0},
        {"frozen": {"level": 0}},
        {"frozen": {"other": 3}},
        {"most_unknown": -0.1},
        {"most_unknown": 1.1},
        {"most_unknown": np.nan},
        {"return_unknown": 0.6},
        {"return_unknown": np.nan},
        {"max_change": 0.0},
        {"max_change": [0.1, -0.1]},
        {"max_change": np.nan},
        {"max_change": "fast"},
        {"last_resort": [1.5]},
        {"last_resort": [np.nan]},
        {"last_resort": [0.1, 0.1]},
    ],
)
def test_rules_outside_their_range_are_refused_at_once(rules: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(rules))):
        guarded(**rules)


def test_what_cannot_be_meant_is_refused_at_once() -> None:
    with pytest.raises(ArgumentError, match="the fallback is"):
        GuardedController(tank(), fallback=[0.0, 0.0])  # type: ignore[arg-type]
    for rules in (GuardRules(transfer=2), GuardRules(max_change=0.5)):
        with pytest.raises(ArgumentError, match="levels"):
            GuardedController(robot(levels={"valve": (0.0, 1.0)}), rules=rules)
