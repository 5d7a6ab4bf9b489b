"""A reward column that is a formula of the others is found, and offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nopg import describe, evaluate_offline, optimize
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.inspect._stated_cost import stated_cost

RNG = np.random.default_rng(0)
LEVEL, OIL, VALVE = RNG.normal(3.0, 1.0, 400), RNG.normal(20.0, 3.0, 400), RNG.uniform(size=400)
GOAL = RNG.choice([2.0, 3.0, 4.0], 400)
AFTER = LEVEL + RNG.normal(0.0, 0.1, 400)


def log(reward: np.ndarray, **units: str) -> Transitions:
    states, after = np.stack([LEVEL, GOAL, OIL], axis=1), np.stack([AFTER, GOAL, OIL + 0.1], axis=1)
    names = ["level", "goal", "oil temp"]
    return Transitions.from_arrays(
        states, VALVE, reward, after, state_names=names, action_names=["valve"], units=units
    )


@pytest.mark.parametrize(
    ("reward", "cost"),
    [
        (-((LEVEL - GOAL) ** 2), "(level - goal)**2"),
        (-((LEVEL - GOAL) ** 2) - 0.01 * VALVE**2, "(level - goal)**2 + 0.01*valve**2"),
        (
            -2 * (AFTER - 3.5) ** 2 - 0.3 * (VALVE - 0.25) ** 2,
            "2*(next(level) - 3.5)**2 + 0.3*(valve - 0.25)**2",
        ),
        (-np.abs(LEVEL - GOAL) - 0.1 * VALVE, "abs(level - goal) + 0.1*valve"),
        (5 - 0.1 * (OIL - 21) ** 2 - (LEVEL - GOAL) ** 2, "(level - goal)**2 + 0.1*(`oil temp` - 21)**2 - 5"),
        (1e6 * (LEVEL - GOAL) ** 2, "-1000000*(level - goal)**2"),
    ],
)
def test_the_cost_of_a_column_is_written_as_an_engineer_would(reward: np.ndarray, cost: str) -> None:
    assert stated_cost(log(reward)) == cost


@pytest.mark.parametrize(
    "reward",
    [
        -((LEVEL - GOAL) ** 2) + 1e-4 * RNG.normal(size=400),
        np.round(-((LEVEL - GOAL) ** 2), 3),
        -np.log(np.abs(LEVEL - GOAL) + 0.01),
        np.ones(400),
    ],
)
def test_what_is_only_nearly_a_formula_is_not_offered(reward: np.ndarray) -> None:
    assert stated_cost(log(reward)) is None


def test_columns_of_different_units_are_not_subtracted() -> None:
    found = stated_cost(log(-((LEVEL - GOAL) ** 2), level="m", goal="%"))
    assert found is None or "level - goal" not in found


def test_describe_offers_the_cost_and_says_how_far_actions_go() -> None:
    found = describe(log(-((LEVEL - GOAL) ** 2)))
    finding = found.finding("cost")
    assert finding is not None
    assert "--cost '(level - goal)**2'" in finding.advice
    assert "valve in [" in found.facts["Limits"]
    assert describe(log(np.zeros(400)).with_reward("-(level - goal)**2")).finding("cost") is None


def test_a_magnitude_of_what_never_changes_its_sign_is_not_offered() -> None:
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(1.0, 2.0, 200), rng.uniform(0.0, 1.0, 200)  # level > valve in every row
    reward = -((level - 1.5) ** 2) - 0.05 * (valve - 0.35) ** 2
    log = Transitions.from_arrays(
        level, valve, reward, level + 0.1, state_names=["level"], action_names=["valve"]
    )
    assert stated_cost(log) == "(level - 1.5)**2 + 0.05*(valve - 0.35)**2"


@pytest.mark.parametrize(
    "use",
    [
        describe,
        lambda path: optimize(path, 0.9),
        lambda path: evaluate_offline(lambda states: states, path, 0.9),
    ],
)
def test_the_name_of_a_file_is_no_log(use: Callable[[Any], object]) -> None:
    with pytest.raises(ArgumentError, match="read_csv"):
        use("log.csv")
