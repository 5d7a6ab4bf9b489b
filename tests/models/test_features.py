import math

import numpy as np
import pytest
import torch

from nopg.data import Schema
from nopg.models._regression_rows import InputSpace

SCHEMA = Schema(("level", "angle", "still"), ("valve",), {"angle": 360.0})
INPUTS = torch.tensor(
    [[1.0, 10.0, 5.0, 0.2], [3.0, 350.0, 5.0, 0.4], [2.0, 190.0, 5.0, -0.1]], dtype=torch.float64
)
SPACE = InputSpace.of(SCHEMA, INPUTS)
USED = torch.tensor([True, True, False, True])
FEATURES = SPACE.first_features(USED)


def test_features_are_those_of_the_regression_without_the_constant() -> None:
    by_row = FEATURES.at(INPUTS.T.numpy())[0].T
    assert by_row == pytest.approx(SPACE.features(INPUTS, USED, 1)[:, 1:].numpy(), abs=1e-15)
    # The level is 1 below its mean, in units of √(2/3); the angle is 10 degrees.
    first = [-1.0 / math.sqrt(2 / 3), math.cos(math.radians(10)), math.sin(math.radians(10))]
    assert by_row[0, :3].tolist() == pytest.approx(first)


def test_slopes_by_features_add_up_to_slopes_by_inputs() -> None:
    x, by_feature, step = INPUTS.T.numpy(), np.array([[2.0], [3.0], [5.0], [7.0]]), 1e-5
    by_input = np.ones_like(x)
    FEATURES.add_slopes(by_input, by_feature * FEATURES.at(x)[1])
    for column in range(len(x)):
        apart = np.zeros((len(x), 1))
        apart[column] = step
        rise = ((FEATURES.at(x + apart)[0] - FEATURES.at(x - apart)[0]) * by_feature).sum(axis=0)
        # Central differences err by rounding over the step.
        assert by_input[column] == pytest.approx(1.0 + rise / (2.0 * step), abs=1e-9)
