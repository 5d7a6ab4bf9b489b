"""A controller on a plant: fallback, limits, and what a broken sensor may do."""

from collections.abc import Sequence

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from deploy.known_places import known_around, radii_at
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, GuardRules, RuntimeController
from nopg.errors import ArgumentError, NoActionError, ObservationError


def tank(bounds: dict[str, tuple[float, float]] | None = None) -> RuntimeController:
    """Return valve = 2·level, pump = −level, known around a level of 0.3."""
    columns = Columns(
        ("level",), ("valve", "pump"), bounds={"valve": (0.0, 1.0)} if bounds is None else bounds
    )
    support = known_around(columns, [0.3], 0.1)
    return RuntimeController(
        SavedController(columns, {"kind": "linear"}, {"gain": np.array([[2.0], [-1.0]])}, support, "here")
    )


class Recorder:
    """A fallback that remembers what it was asked."""

    def __init__(self, action: Sequence[float] = (0.5, 0.0)) -> None:
        self.action, self.asked = action, list[list[float]]()

    def __call__(self, observation: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Sequence[float]:
        self.asked.append(observation.tolist())
        return self.action


def test_where_the_data_know_the_state_the_learned_action_is_applied() -> None:
    fallback = Recorder()
    decision = GuardedController(tank(), fallback=fallback).act([0.3])
    assert decision.source == "learned"
    assert decision.action.tolist() == [0.6, -0.3]
    assert decision.unknown == pytest.approx(1e-4 / (1 + 1e-4))
    assert not fallback.asked


def test_where_they_do_not_the_fallback_is_asked() -> None:
    fallback = Recorder()
    decision = GuardedController(tank(), fallback=fallback).act([3.0])
    assert (decision.source, decision.action.tolist()) == ("fallback", [0.5, 0.0])
    assert decision.unknown > 0.999
    assert fallback.asked == [[3.0]]


def test_the_limit_on_the_unknown_share_is_the_one_given() -> None:
    half = 0.3 + 0.1 * radii_at(0.5)
    guard = GuardedController(tank(), fallback=Recorder())
    assert guard.act([half - 1e-6]).source == "learned"
    assert guard.act([half + 1e-6]).source == "fallback"
    strict = GuardedController(tank(), fallback=Recorder(), most_unknown=0.0)
    assert strict.act([0.3]).source == "fallback"
    trusting = GuardedController(tank(), most_unknown=1.0)
    assert trusting.act([30.0]).source == "learned"


def test_a_first_step_that_nobody_can_take_is_an_error_that_says_what_to_do() -> None:
    guard = GuardedController(tank())
    with pytest.raises(
        NoActionError, match=r"outside the data; no fallback\. Give a fallback, a last resort"
    ):
        guard.act([3.0])
    assert guard.applied is None
    assert guard.act([0.3]).source == "learned"  # nobody acted, so there is nothing to wait for


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_goes_to_the_fallback_and_never_to_the_policy(number: float) -> None:
    fallback = Recorder()
    guard = GuardedController(tank(), fallback=fallback, most_unknown=1.0)
    decision = guard.act([number])
    assert (decision.source, decision.unknown) == ("fallback", 1.0)
    assert np.isfinite(decision.action).all()
    assert len(fallback.asked) == 1
    with pytest.raises(NoActionError):
        GuardedController(tank(), most_unknown=1.0).act([number])


def test_a_masked_number_goes_to_the_fallback_as_nan() -> None:
    fallback = Recorder()
    decision = GuardedController(tank(), fallback=fallback).act(np.ma.MaskedArray([0.3], mask=[True]))
    assert decision.source == "fallback"
    assert np.isnan(fallback.asked[0]).all()


@pytest.mark.parametrize("observation", [[0.3, 0.3], [[0.3]], 0.3, [], ["high"], None])
def test_an_observation_of_another_shape_is_a_mistake_whatever_the_fallback(observation: object) -> None:
    fallback = Recorder()
    with pytest.raises(ObservationError):
        GuardedController(tank(), fallback=fallback).act(observation)  # type: ignore[arg-type]
    assert not fallback.asked


@pytest.mark.parametrize("answer", [[np.nan, 0.0], [0.5], [[0.5, 0.0]], None, "stop", [np.inf, 0.0]])
def test_where_the_fallback_gives_no_action_the_last_one_is_held(answer: object) -> None:
    guard = GuardedController(tank(), fallback=lambda observation: answer)  # type: ignore[arg-type, return-value]
    guard.act([0.3])
    decision = guard.act([3.0])
    assert (decision.source, decision.action.tolist()) == ("last resort", [0.6, -0.3])
    assert decision.reason == "outside the data; the fallback gave no finite action"


def test_an_error_of_the_fallback_is_named_and_the_declared_action_applied() -> None:
    def broken(observation: object) -> list[float]:
        raise ZeroDivisionError

    guard = GuardedController(tank(), fallback=broken, rules=GuardRules(last_resort=[0.1, 0.0]))
    decision = guard.act([3.0])
    assert (decision.source, decision.action.tolist()) == ("last resort", [0.1, 0.0])
    assert decision.reason == "outside the data; the fallback raised ZeroDivisionError"


def test_every_action_is_clipped_whoever_wants_it() -> None:
    guard = GuardedController(tank(), fallback=Recorder((7.0, 7.0)), most_unknown=1.0)
    assert guard.act([0.6]).action.tolist() == [1.0, -0.6]
    guard = GuardedController(tank(), fallback=Recorder((7.0, 7.0)))
    assert guard.act([9.0]).action.tolist() == [1.0, 7.0]  # the pump has no bounds


def test_an_action_moves_by_at_most_the_change_allowed_per_column() -> None:
    rules = GuardRules(dwell=1)
    guard = GuardedController(tank(), fallback=Recorder((1.0, 1.0)), max_change=[0.1, np.inf], rules=rules)
    assert guard.act([0.3]).action.tolist() == [0.6, -0.3]  # the first is free
    assert guard.act([0.1]).action == pytest.approx([0.5, -0.1])  # 0.2 is wanted
    assert guard.act([9.0]).action == pytest.approx([0.6, 1.0])  # of the fallback too
    assert guard.act([0.3]).action == pytest.approx([0.6, -0.3])


def test_a_reset_forgets_the_last_action_or_begins_at_the_one_on_the_plant() -> None:
    guard = GuardedController(tank(), max_change=0.1)
    assert guard.applied is None
    guard.act([0.3])
    guard.reset()
    assert guard.applied is None
    assert guard.act([0.2]).action.tolist() == [0.4, -0.2]
    guard.reset(applied=[0.0, 0.0])
    assert guard.act([0.3]).action == pytest.approx([0.1, -0.1])
    with pytest.raises(ArgumentError, match="2 finite numbers"):
        guard.reset(applied=[np.nan, 0.0])


def test_who_changes_a_decision_does_not_change_what_was_applied() -> None:
    guard = GuardedController(tank(), max_change=0.1)
    guard.act([0.3]).action[:] = 99.0
    assert guard.act([0.3]).action.tolist() == [0.6, -0.3]


def test_holding_the_last_action_is_a_fallback_that_one_can_choose() -> None:
    guard: GuardedController = GuardedController(
        tank(), fallback=lambda observation: [0.0, 0.0] if guard.applied is None else guard.applied
    )
    assert guard.act([9.0]).action.tolist() == [0.0, 0.0]
    guard.reset()
    guard.act([0.3])
    assert guard.act([9.0]).action.tolist() == [0.6, -0.3]


@pytest.mark.parametrize(
    "settings",
    [
        {"most_unknown": -0.1},
        {"most_unknown": 1.1},
        {"most_unknown": np.nan},
        {"max_change": 0.0},
        {"max_change": [0.1, -0.1]},
        {"max_change": np.nan},
        {"max_change": [0.1, 0.1, 0.1]},
        {"max_change": "fast"},
        {"fallback": [0.0, 0.0]},
    ],
)
def test_settings_outside_their_range_are_refused_at_once(settings: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        GuardedController(tank(), **settings)  # type: ignore[arg-type]


@hypothesis.given(
    observations=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
    change=st.floats(1e-3, 10.0),
    wanted=st.floats(-1e6, 1e6),
)
def test_whatever_happens_actions_are_finite_within_limits_and_move_slowly(
    observations: list[float], change: float, wanted: float
) -> None:
    robot = tank({"valve": (0.0, 1.0), "pump": (-2.0, 2.0)})
    guard = GuardedController(robot, fallback=Recorder((wanted, -wanted)), max_change=change)
    guard.reset(applied=[0.5, 0.0])
    last = np.array([0.5, 0.0])
    for level in observations:
        decision = guard.act([level])
        assert np.isfinite(decision.action).all()
        assert ((decision.action >= robot.low) & (decision.action <= robot.high)).all()
        assert (np.abs(decision.action - last) <= change * (1 + 1e-12)).all()
        assert 0.0 <= decision.unknown <= 1.0
        assert decision.source == "fallback" or decision.unknown <= 0.5
        last = decision.action
