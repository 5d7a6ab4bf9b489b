"""Names, angles and the map from raw states to features."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.data import Schema, Transitions
from nopg.errors import DataError

ARM = Schema(("x", "yaw", "speed", "roll"), ("force",), {"yaw": 360.0, "roll": 2 * math.pi})


def test_an_angle_gives_two_features_and_another_column_one() -> None:
    assert ARM.features == ("x", "cos yaw", "sin yaw", "speed", "cos roll", "sin roll")
    assert ARM.feature_columns == (0, 1, 1, 2, 3, 3)


@settings(deadline=None)  # the first call of a busy machine may take its time
@given(
    angle=st.floats(-100.0, 100.0),
    turns=st.integers(-10, 10),
    period=st.sampled_from([1.0, 2.0, 2 * math.pi, 24.0, 360.0, 6400.0]),
)
def test_whole_turns_change_no_feature_whatever_the_period(angle: float, turns: int, period: float) -> None:
    schema = Schema(("hour",), ("u",), {"hour": period})
    states = torch.tensor([[angle], [angle + turns * period]], dtype=torch.float64)
    first, later = schema.encode(states)
    # An angle of up to 110 turns (period 1) is rounded by 110·2π·10⁻¹⁶ radians or less, once or twice.
    torch.testing.assert_close(first, later, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(angle=st.floats(-10.0, 10.0))
def test_features_of_an_angle_lie_on_the_unit_circle(angle: float) -> None:
    x, y = Schema(("angle",), ("u",), {"angle": 5.0}).encode(torch.tensor([angle], dtype=torch.float64))
    assert math.hypot(x, y) == pytest.approx(1.0, abs=1e-15)
    assert math.atan2(y, x) == pytest.approx(
        math.remainder(2 * math.pi * angle / 5.0, 2 * math.pi), abs=1e-12
    )


def test_an_angle_in_degrees_needs_its_period() -> None:
    log: dict[str, Any] = {"states": [10.0, 350.0], "actions": [0.0, 1.0], "rewards": "0"}
    log |= {"next_states": [1.0, 2.0], "state_names": ["yaw"]}
    for angles, unit in ((["yaw"], "°"), (["yaw"], "deg"), ({"yaw": 2 * math.pi}, "°")):
        with pytest.raises(DataError, match=r"is in degrees; declare its period: angles=\{'yaw': 360\}"):
            Transitions.from_arrays(**log, angles=angles, units={"yaw": unit})
    for angles, unit in (({"yaw": 360.0}, "°"), (["yaw"], "rad")):
        assert Transitions.from_arrays(**log, angles=angles, units={"yaw": unit})


def test_an_angle_must_be_a_state_column() -> None:
    with pytest.raises(DataError, match=r"angle 'force' is not a state column; the columns are \['x'\]"):
        Schema(("x",), ("force",), {"force": 1.0})
