"""The figure of the portraits, from records made by hand."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np

from studies.paper import EXPERIMENTS
from studies.paper._experiment import Mode
from studies.records import Record

STUDY = EXPERIMENTS["pendulum-portrait"]


def record(mode: Mode = "ours", size: int = 800, unknown: float = 0.0) -> Record:
    beyond = np.zeros((5, 5))
    beyond[:, -2:] = unknown
    shares = np.full((20, 20), 1 / 400).tolist()
    part = {
        "visitation": shares,
        "truth": shares,
        "value": np.linspace(-300.0, 0.0, 25).reshape(5, 5).tolist(),
        "unknown": beyond.tolist(),
        "upright_mass": 0.16,
        "upright_mass_truth": 0.15,
        "total_variation": 0.3,
        "expected_return": -180.0,
        "discounted_truth": -187.0,
    }
    path = [[3.1, 0.0], [3.14, 1.0], [-3.1, 1.0], [0.0, 0.0]]
    results = {"before": part, "after": part, "path": path, "updates": 10}
    return replace(STUDY.run("nopg-d", size, 3, mode), results=results)


def titles(*records: Record) -> list[str]:
    return [axes.get_title(loc="left") for axes in STUDY.draw(records).axes]


def test_predicted_visits_stand_beside_the_true_ones() -> None:
    figure: Any = STUDY.draw([record()])
    found = titles(record())
    assert len(found) == 8  # six panels and two colour bars
    assert "before" in found[0]
    assert "16 % within .5 rad" in found[0]
    assert "true visits; total variation 0.300" in found[1]
    assert "true path" in found[5]
    with BytesIO() as file:
        figure.savefig(file, format="png", dpi=40)
        assert file.getvalue().startswith(b"\x89PNG")


def test_ours_is_drawn_before_the_paper() -> None:
    faithful = record("faithful", 450)
    assert "800 transitions" in STUDY.draw([faithful, record()]).get_suptitle()
    assert "supplement's settings" in STUDY.draw([faithful]).get_suptitle()


def test_what_lies_outside_the_data_is_hatched() -> None:
    assert not any("hatched" in title for title in titles(record()))
    assert sum("hatched" in title for title in titles(record(unknown=0.9))) == 2


def test_no_stroke_crosses_the_figure_where_the_angle_wraps() -> None:
    path = STUDY.draw([record()]).axes[5].lines[0].get_xydata()
    assert np.isnan(np.asarray(path)[2]).all()
