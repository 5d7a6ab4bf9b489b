"""What is predicted of a controller does not depend on how the log of its plant is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch

from changed_logs import ALL_AT_ONCE, CHANGES, CLOSE, Change, Law, linear_run, twice, weighted
from nopg.data import Transitions
from nopg.envs import Pendulum, UniformAgent, collect
from nopg.evaluation import Assessment, OfflineEvaluator, choose

GAMMA = 0.9


@dataclass(frozen=True)
class Case:
    """A log of a task that never ends, and two controllers."""

    log: Callable[[], Transitions]
    laws: tuple[Law, Law]


def pendulum() -> Transitions:
    plant = Pendulum(start="random")
    return collect(plant, UniformAgent.within(plant), episodes=20, steps=20, seed=0)


def feedback(x: float, v: float) -> Law:
    return lambda states: (-x * states[:, :1] - v * states[:, 1:2]).clamp(-1, 1)


CASES = {
    # An angle, no noise, a reward that charts predict.
    "pendulum": Case(pendulum, (lambda s: -2.0 * s[:, 1:2].sin(), lambda s: 0.5 + 0.0 * s[:, :1])),
    "disturbed": Case(lambda: linear_run(sensor=0.0), (feedback(0.5, 0.5), feedback(0.0, 0.1))),
    "noisy sensors": Case(linear_run, (feedback(0.5, 0.5), feedback(0.0, 0.1))),
    # Moves of the set point are drawn from the log.
    "set point": Case(
        lambda: linear_run(follows=True),
        (lambda s: (s[:, 2:] - s[:, :1] - 0.5 * s[:, 1:2]).clamp(-1, 1), feedback(0.0, 0.1)),
    ),
}


# Every change alone is for one case; the others have all changes at once, and each alone among slow tests.
QUICK = "disturbed"
CASES_OF_COPIES = [
    name if name in (QUICK, "pendulum") else pytest.param(name, marks=pytest.mark.slow) for name in CASES
]


@dataclass(frozen=True)
class Found:
    """Assessments of two controllers and of the logged behaviour, and the range of returns."""

    every: tuple[Assessment, ...]
    span: float

    @property
    def best(self) -> int:
        return choose(self.every, self.every[-1], (2, 1, 0))


def assessed(data: Transitions, laws: tuple[Law, ...]) -> Found:
    evaluator = OfflineEvaluator(data, GAMMA)
    found = (*map(evaluator.assess, laws), evaluator.logged())
    return Found(found, evaluator.model.return_range(GAMMA))


@cache
def log_of(name: str) -> Transitions:
    return CASES[name].log()


@cache
def plainly(name: str) -> Found:
    return assessed(log_of(name), CASES[name].laws)


def assert_same(found: Found, expected: Found, change: Change | None = None) -> None:
    """Assert equal verdicts, choices, returns and intervals; a change moves returns as it moves rewards."""
    written = change or Change()
    assert found.best == expected.best
    for one, other in zip(found.every, expected.every, strict=True):
        assert one.verdict == other.verdict
        assert len(one.reasons) == len(other.reasons)
        assert one.unknown_mass == pytest.approx(other.unknown_mass, abs=CLOSE)
        for mine, its in (
            (one.expected_return, other.expected_return),
            (one.pessimistic_return, other.pessimistic_return),
            *zip(one.interval, other.interval, strict=True),
        ):
            assert written.value(mine, GAMMA) == pytest.approx(its, abs=CLOSE * expected.span)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *((ALL_AT_ONCE, name) for name in CASES if name != QUICK),
        *((change, QUICK) for change in CHANGES.values()),
        *(
            pytest.param(change, name, marks=pytest.mark.slow)
            for name in CASES
            for change in CHANGES.values()
            if name != QUICK
        ),
    ],
)
def test_returns_move_as_rewards_do_and_by_nothing_else(written: Change, name: str) -> None:
    data = log_of(name)
    laws = tuple(written.law(law, data.schema) for law in CASES[name].laws)
    assert_same(assessed(written.log(data), laws), plainly(name), written)


@pytest.mark.parametrize("name", CASES_OF_COPIES)
def test_every_row_twice_says_the_same_as_weights_of_two_and_as_each_row_once(name: str) -> None:
    data, every = log_of(name), torch.ones(len(log_of(name)), dtype=torch.bool)
    for log in (twice(data, every), twice(data, every, in_place=True), weighted(data, 2 * every)):
        assert_same(assessed(log, CASES[name].laws), plainly(name))


@pytest.mark.parametrize("name", CASES_OF_COPIES)
def test_some_episodes_twice_say_the_same_as_weights_of_two_there(name: str) -> None:
    data, laws = log_of(name), CASES[name].laws
    assert data.episodes is not None
    some = data.episodes < 7
    heavy = assessed(weighted(data, 1 + some.long()), laws)
    assert heavy.every[0].expected_return != plainly(name).every[0].expected_return
    assert_same(assessed(twice(data, some), laws), heavy)


def test_unconnected_rows_may_come_in_any_order_and_twice() -> None:
    data, laws = replace(log_of("disturbed"), episodes=None), CASES["disturbed"].laws
    expected, some = assessed(data, laws), torch.arange(len(data)) % 3 == 0
    assert_same(assessed(Change(rows=True).log(data), laws), expected)
    heavy = assessed(weighted(data, 1 + some.long()), laws)
    assert_same(assessed(twice(data, some), laws), heavy)


@pytest.mark.parametrize(
    "written",
    [
        replace(ALL_AT_ONCE, reward=(0.1, 0.0)),
        *(
            pytest.param(change, marks=pytest.mark.slow)
            for name, change in CHANGES.items()
            if "reward +" not in name
        ),
    ],
)
def test_a_task_that_ends_has_a_zero_of_its_rewards_and_no_units(written: Change) -> None:
    data, laws = ending(), (feedback(0.5, 0.5), feedback(0.0, 0.1))
    moved = tuple(written.law(law, data.schema) for law in laws)
    assert_same(assessed(written.log(data), moved), assessed(data, laws), written)


def ending() -> Transitions:
    """Return episodes that end where the position leaves ±2."""
    data = linear_run(sensor=0.0, episodes=60, steps=8)
    ends, kept = data.next_states[:, 0].abs() > 2.0, []
    for episode in range(60):
        rows = torch.arange(8 * episode, 8 * episode + 8)
        ended = ends[rows].nonzero()[:, 0]
        kept.append(rows if len(ended) == 0 else rows[: int(ended[0]) + 1])
    return replace(data, terminated=ends).take(torch.cat(kept))
