"""The figure on the regulator, from records alone."""

import io
from typing import Any

import pytest
from matplotlib.axes import Axes

from nopg.errors import ArgumentError
from studies.paper import Trial
from studies.paper._experiment import Mode
from studies.paper.figures._lqr_gradient import draw_lqr_gradient
from studies.records import Record


def record(method: str, seed: int, *, mode: Mode = "ours", cosines: Any = (0.9, 0.1)) -> Record:
    start = [0.7, -0.7] if method in {"nopg-d", "dpg"} else [0.35, -0.35]
    results = {
        "shares": [0.0, 0.5],
        "cosines": list(cosines),
        "own_path": [start, [-1.0 - seed, -1.0], [-40.0, 30.0]],
    }
    return Trial("lqr-gradient", mode, method, 3_000, seed).record(results=results)


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_two_panels_of_paths_and_two_of_cosines() -> None:
    records = [record(name, seed) for name in ("nopg-d", "dpg", "nopg-s") for seed in (0, 1)]
    records.append(record("pwis", 0, cosines=(None, None)))
    figure = draw_lqr_gradient(records)
    axes = figure.axes
    assert [a.get_title() for a in axes[:2]] == ["deterministic policies", "Gaussian policies"]
    assert [a.get_ylabel() for a in axes] == ["gain $k_2$"] * 2 + ["cosine with the exact gradient"] * 2
    labels = [legend_of(a) for a in axes]
    assert labels[0] == ["start", "NOPG-D: path and end", "DPG: path and end", "optimum"]
    assert labels[2] == ["NOPG-D: mean, range", "DPG: mean, range"]
    assert "PWIS: datasets without a direction" in labels[3]
    figure.savefig(io.BytesIO(), format="png")


def test_a_method_without_records_is_left_out() -> None:
    figure = draw_lqr_gradient([record("nopg-d", 0)])
    assert legend_of(figure.axes[2]) == ["NOPG-D: mean, range"]
    assert figure.axes[3].get_legend() is None


def test_modes_are_not_mixed() -> None:
    with pytest.raises(ArgumentError, match="give those of one"):
        draw_lqr_gradient([record("nopg-d", 0), record("nopg-d", 0, mode="faithful")])
