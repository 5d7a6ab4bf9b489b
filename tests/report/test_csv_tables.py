"""Tables for spreadsheets: names are never formulas, numbers stay numbers."""

import csv
import io

import numpy as np
import pytest

from nopg.report._csv_tables import csv_table


@pytest.mark.parametrize("name", ["=1+1", "+level", "-level", "@SUM(A1)", "\tlevel"])
def test_a_name_that_looks_like_a_formula_is_text(name: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_table({name: np.array([-1.5, 2.0])}))))
    assert rows == [[f"'{name}"], ["-1.5"], ["2.0"]]


def test_other_names_and_all_digits_are_kept() -> None:
    assert csv_table({"level [m]": np.array([0.1 + 0.2])}) == "level [m]\n0.30000000000000004\n"
    assert csv_table({"a": np.array([1 / 3]), "b": np.array([np.nan])}, digits=3) == "a,b\n0.333,\n"
