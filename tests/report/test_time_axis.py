"""Time instead of steps in figures and tables."""

import numpy as np
import pytest

from nopg.report._fan import Fan, draw_fans, fans_table
from nopg.report._time_axis import TimeAxis


@pytest.mark.parametrize(
    ("interval", "steps", "unit", "step"),
    [
        (60.0, 100, "min", 1.0),
        (60.0, 119, "min", 1.0),
        (60.0, 120, "h", 1 / 60),
        (0.01, 50, "ms", 10.0),
        (1e-6, 3, "ms", 1e-3),
    ],
)
def test_the_unit_of_an_axis_suits_its_length(interval: float, steps: int, unit: str, step: float) -> None:
    axis = TimeAxis.of(interval, steps)
    assert axis.unit == unit
    assert axis.step == pytest.approx(step)


def test_fans_are_drawn_over_time_where_the_interval_is_known() -> None:
    fan = Fan("predicted", "predicted", "black", np.arange(10.0)[:, None], unknown_after=4)
    axis = TimeAxis.of(60.0, 10)
    table = fans_table(fan, axis=axis)
    assert list(table) == ["step", "time_min", "predicted_1"]
    assert table["time_min"].tolist() == list(range(10))
    panels = draw_fans("level", fan, fan, axis=TimeAxis("min", 0.5)).axes
    assert panels[0].get_xlabel() == "time [min]"
    assert panels[0].get_xlim() == (0.0, 4.5)
    assert np.asarray(panels[0].lines[0].get_xdata())[-1] == 4.5
    assert draw_fans("level", fan, fan).axes[0].get_xlabel() == "step"
