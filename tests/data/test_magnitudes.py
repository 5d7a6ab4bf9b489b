"""Numbers that floats cannot compute with: refused on entry, by the name of their column."""

from typing import Any

import numpy as np
import pytest

from nopg.data import Transitions
from nopg.errors import DataError


def log(**changes: Any) -> Transitions:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "states": rng.normal(size=(6, 2)),
        "actions": rng.normal(size=(6, 1)),
        "rewards": rng.normal(size=6),
        "next_states": rng.normal(size=(6, 2)),
    }
    scaled = {name: values * changes.pop(name, 1.0) for name, values in arrays.items()}
    return Transitions.from_arrays(**scaled, **changes)


@pytest.mark.parametrize("size", [1e80, 1e307])
@pytest.mark.parametrize(
    ("role", "label"),
    [("states", "'s0'"), ("next_states", "'s0'"), ("actions", "'a0'"), ("rewards", "the reward")],
)
def test_numbers_that_cannot_be_squared_are_refused(role: str, label: str, size: float) -> None:
    with pytest.raises(DataError, match=rf"^{label} reaches .*e\+(79|80|306|307); .*larger unit"):
        log(**{role: size})


@pytest.mark.parametrize(
    ("role", "label"), [("states", "'s0'"), ("next_states", "'s0'"), ("actions", "'a0'")]
)
def test_columns_whose_squares_vanish_are_refused(role: str, label: str) -> None:
    with pytest.raises(DataError, match=rf"^{label} varies by .*e-(199|200) only; .*smaller unit"):
        log(**{role: 1e-200})
    assert log(**{role: 1e-60, "rewards": 1e-200})
    assert log(**{role: 0.0})


def test_starts_that_cannot_be_squared_are_named() -> None:
    with pytest.raises(DataError, match=r"reaches 1e\+300"):
        log().starting_at(np.full((1, len(log().schema.states)), 1e300))


@pytest.mark.parametrize(("size", "period"), [(1e17, 2 * np.pi), (1.0, 1e-70), (1e300, 1e299)])
def test_an_angle_without_a_direction_is_refused(size: float, period: float) -> None:
    with pytest.raises(DataError, match=r"the angle 's0' reaches .* period of .*modulo|'s0' reaches"):
        log(states=size, angles={"s0": period})


def test_an_angle_of_many_turns_keeps_its_direction() -> None:
    assert log(states=1e12, next_states=1e12, angles={"s0": 360.0}).schema.angles == {"s0": 360.0}


@pytest.mark.parametrize("period", [1e-300, 0.0, np.nan, np.inf])
def test_a_period_outside_the_range_of_floats_is_refused(period: float) -> None:
    with pytest.raises(DataError, match="the period of angle 's0' is"):
        log(angles={"s0": period})
