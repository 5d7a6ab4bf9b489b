"""Units of columns: which formulas they refuse."""

from __future__ import annotations

import pytest

from nopg import Transitions
from nopg._expressions import Expression
from nopg._units import check_units
from nopg.data import Schema
from nopg.errors import DataError
from nopg.evaluation._risk import region_of

UNITS = {
    "level": "m",
    "setpoint": "cm",
    "other": "m",
    "flow": "m^3/s",
    "area": "m2",
    "other_area": "m²",
    "valve": "%",
    "angle": "rad",
    "in [kW]": "kW",
}


@pytest.mark.parametrize(
    "formula",
    [
        "-(level - 1)**2 - 0.1 * valve**2",
        "-abs(level - other) - valve * 0.5",
        "-max(level - 1, 0) - max(valve - 90, 0)",
        "level * level - area",
        "sqrt(area) - level",
        "flow / area - 3",
        "exp(-level**2) + tanh(level / other)",
        "cos(angle) + 0.1 * level",
        "-(level - 0.01 * setpoint)**2",
        "next(level) - other + diff(level)",
        "-`in [kW]` - (level - 1)**2",
        "level ** 0.5 - valve ** -2",
        "other_area - area",
        "level > 1 and valve < 90 or not other > 2",
        "level ** 1e99 - valve",  # refused when it is computed
    ],
)
def test_sensible_costs_are_not_refused(formula: str) -> None:
    check_units(Expression(formula), UNITS)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("level - valve", "'level' is in m and 'valve' in %"),
        ("-(level - setpoint)**2", "'level' is in m and 'setpoint' in cm"),
        ("0.1 * valve**2 + (next(level) - setpoint)**2", r"'next\(level\)' is in m and 'setpoint' in cm"),
        ("abs(level - valve) > 1", "'level' is in m and 'valve' in %"),
        ("0.1 * (level > valve)", "'level' is in m and 'valve' in %"),
        ("exp(level - valve)", "'level' is in m and 'valve' in %"),
        ("1 < level < valve", "'level' is in m and 'valve' in %"),
        ("area - level", "'area' is in m2 and 'level' in m"),
        ("max(level, valve)", "'level' is in m and 'valve' in %"),
        ("`in [kW]` - level", r"'`in \[kW\]`' is in kW"),
    ],
)
def test_quantities_of_different_units_are_neither_added_nor_compared(formula: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_units(Expression(formula), UNITS)


def _tank() -> Transitions:
    levels = [[0.0, 1.0], [0.5, 2.0], [1.0, 3.0]]
    return Transitions.from_arrays(
        levels[:-1],
        [[1.0], [2.0]],
        [0.0, 0.0],
        levels[1:],
        state_names=["level", "setpoint"],
        action_names=["valve"],
        units={"level": "m", "setpoint": "cm", "valve": "%"},
    )


def test_rewards_integrals_and_regions_check_the_declared_units() -> None:
    wrong = "'level' is in m and 'setpoint' in cm"
    with pytest.raises(DataError, match=f"{wrong} in the reward"):
        _tank().with_reward("-(level - setpoint)**2")
    with pytest.raises(DataError, match=f"{wrong} in the integral 'total'"):
        _tank().derive(integrals={"total": "level - setpoint"})
    with pytest.raises(DataError, match=f"{wrong} in the region"):
        region_of(
            "level > setpoint", Schema(("level", "setpoint"), (), units={"level": "m", "setpoint": "cm"})
        )
    assert _tank().with_reward("-(level - 0.01*setpoint)**2").rewards.tolist() == pytest.approx(
        [-1e-4, -0.2304]
    )
