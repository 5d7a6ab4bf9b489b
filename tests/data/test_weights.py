"""Weights: how many transitions a row stands for, through every kind."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from data.io_cases import assert_same, bits, grid, walks
from nopg.data import Transitions
from nopg.data.io import (
    from_dataframe,
    read_csv,
    read_parquet,
    to_dataframe,
    write_parquet,
)
from nopg.errors import DataError

WALKS: dict[str, Any] = {"states": ["x", "y"], "actions": ["u"], "reward": "reward"}


def weighted(data: Transitions) -> Transitions:
    """Awkward weights: far from 1, and none that a short decimal could hold."""
    rng = np.random.default_rng(4)
    return replace(data, weights=torch.as_tensor(np.exp(5 * rng.normal(size=len(data)))))


def assert_same_weights(data: Transitions, expected: Transitions) -> None:
    assert_same(data, expected, whole_schema=False)
    assert data.weights is not None
    assert expected.weights is not None
    assert torch.equal(bits(data.weights), bits(expected.weights))


def rows(**changes: Any) -> Transitions:
    return Transitions.from_arrays(
        **{
            "states": [0.0, 1.0, 2.0],
            "actions": [0.0] * 3,
            "rewards": [0.0] * 3,
            "next_states": [1.0, 2.0, 3.0],
        }
        | changes
    )


# On entry.


@pytest.mark.parametrize("weight", [0.0, -2.0])
def test_a_row_that_stands_for_nothing_is_refused(weight: float) -> None:
    with pytest.raises(DataError, match=rf"row 1 has the weight {weight:g}; weights must be positive"):
        rows(weights=[1.0, weight, 1.0])


@pytest.mark.parametrize("weight", [math.nan, math.inf])
def test_a_weight_that_is_no_number_is_refused(weight: float) -> None:
    with pytest.raises(DataError, match=r"the weight has 1 .* \(row 1\)"):
        rows(weights=[1.0, weight, 3.0])


# Through files and tables.


@pytest.mark.parametrize("make", [grid, walks])
def test_weights_come_back_from_parquet_without_a_word(tmp_path: Path, make: Any) -> None:
    data = weighted(make())
    write_parquet(data, tmp_path / "data.parquet")
    assert_same_weights(read_parquet(tmp_path / "data.parquet"), data)


def test_weights_come_back_from_tables_and_csv_by_name(tmp_path: Path) -> None:
    data = weighted(walks())
    assert_same_weights(from_dataframe(to_dataframe(data), **WALKS, weight="weight"), data)
    to_dataframe(data).to_csv(tmp_path / "data.csv", index=False)
    assert_same_weights(read_csv(tmp_path / "data.csv", **WALKS, weight="weight"), data)


def test_rows_whose_next_states_are_the_next_rows_keep_their_own_weights() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 5.0, 6.0], "y": 0.0, "u": 0.0, "reward": 0.0})
    data = from_dataframe(
        frame.assign(n=[1.0, 2.0, 3.0, 4.0, 5.0], episode=[0, 0, 0, 1, 1]), **WALKS, weight="n"
    )
    assert data.weights is not None
    assert data.weights.tolist() == [1.0, 2.0, 4.0]


def test_a_weight_in_a_table_that_is_not_positive_is_named_by_its_row() -> None:
    frame = to_dataframe(weighted(walks()))
    frame.loc[5, "weight"] = 0.0
    with pytest.raises(DataError, match="row 5 has the weight 0; weights must be positive"):
        from_dataframe(frame, **WALKS, weight="weight")
    frame.loc[5, "weight"] = math.nan
    with pytest.raises(DataError, match=r"the weight has 1 missing or infinite value \(row 5\)"):
        from_dataframe(frame, **WALKS, weight="weight")
    assert len(from_dataframe(frame, **WALKS, weight="weight", missing="drop")) == 11
