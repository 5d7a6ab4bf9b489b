"""What `describe` says of time and of repaired values."""

from typing import Any

import numpy as np
import pandas as pd

from nopg.data import Transitions
from nopg.data.io import from_dataframe
from nopg.inspect import Description, Grade, describe

NAN = float("nan")


def log(rows: int = 80, step: float = 60.0, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = {name: rng.normal(size=rows) for name in ("x", "u", "r")}
    return pd.DataFrame(names | {"t": step * np.arange(rows)} | columns)


def read(frame: pd.DataFrame, **columns: Any) -> Transitions:
    return from_dataframe(frame, states=["x"], actions=["u"], reward="r", **columns)


def described(frame: pd.DataFrame, **columns: Any) -> Description:
    return describe(read(frame, **{"time": "t"} | columns))


def test_the_interval_and_the_length_of_episodes_are_in_units_of_time() -> None:
    text = str(described(log()))
    assert "Sampling    every 1 min, 0 gaps" in text
    assert "1 of 79 rows (1.32 h); ends: 1 truncated" in text
    assert "one long recording: the task may start in any row" in text
    assert "Repairs" not in str(described(log(), starts="episodes"))


def test_without_times_everything_is_in_rows() -> None:
    found = described(log(), time=None)
    assert "Episodes    1 of 79 rows; ends" in str(found)
    assert "Sampling    not known" in str(found)
    assert found.finding("sampling") is None


def test_irregular_steps_are_worth_a_look_and_gaps_are_not() -> None:
    times = 60.0 * np.arange(80) + np.where(np.arange(80) % 4 == 0, 20.0, 0.0)
    finding = described(log(t=times)).finding("sampling")
    assert finding is not None
    assert finding.grade == Grade.WARNING
    assert "a row every 1 min, but 49 % of the steps differ by more than 10 %" in finding.what
    gap = described(log(t=60.0 * np.arange(80) + 3600.0 * (np.arange(80) > 40))).finding("sampling")
    assert gap is not None
    assert (gap.grade, gap.what) == (Grade.OK, "a row every 1 min; 1 gap between runs of rows")


def test_repaired_and_dropped_values_are_shown_with_their_numbers() -> None:
    x = np.random.default_rng(1).normal(size=80)
    x[[3, 20, 21]] = NAN
    x[40:47] = NAN
    found = described(log(x=x))
    finding = found.finding("missing values")
    assert finding is not None
    assert (finding.grade, finding.what) == (Grade.OK, "repaired: x (4.23 %)")
    dropped = found.finding("invalid rows")
    assert dropped is not None
    assert dropped.what.startswith("7 rows with NaN or infinities were dropped")
    assert "   3  x: missing, held" in str(found)
    assert found.to_dict()["repairs"]["counts"]["x: missing, held"] == 3
    assert found.to_dict()["interval"] == 60.0


def test_a_column_that_is_mostly_held_is_worth_a_look() -> None:
    slow = np.where(np.arange(80) % 4 == 0, np.random.default_rng(1).normal(size=80), NAN)
    finding = described(log(x=slow)).finding("missing values")
    assert finding is not None
    assert finding.grade == Grade.WARNING
