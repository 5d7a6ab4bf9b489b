"""Calibration of the support: points beyond a log, and the deciles of a page."""

from __future__ import annotations

import numpy as np

from studies.records import Record
from studies.support import _rows, beyond


def test_a_linear_plant_without_noise_is_predicted_beyond_its_rows() -> None:
    variance, wrong = beyond(2)
    assert len(variance) == len(wrong) == 100
    assert float(wrong.max()) < 1e-9 < float(variance.min())


def test_deciles_are_of_the_predicted_variance() -> None:
    predicted = np.arange(1.0, 101.0)
    results = {"variance": predicted.tolist(), "error": (predicted / 2).tolist()}
    rows = _rows([Record(study="support", benchmark="", commit="", results=results)])
    assert [row[0] for row in rows] == [str(k) for k in range(1, 11)]
    assert {row[4] for row in rows} == {"2"}
    assert rows[0][1] == "5.5"
