"""The figure on the regulator, from records alone."""

import io
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes

from studies.paper import EXPERIMENTS
from studies.paper._experiment import Mode
from studies.records import Record


def record(method: str, seed: int, *, mode: Mode = "ours", cosines: Any = (0.9, 0.1)) -> Record:
    gaussian = method in {"nopg-s", "pwis"}
    start = [0.35, -0.35] if gaussian else [0.7, -0.7]
    line: dict[str, Any] = {
        "shares": [0.0, 0.5],
        "cosines": list(cosines),
        "support": [0.9, 0.1],
        "gains": [start, [-3.0, -2.0]],
    }
    results: dict[str, Any] = {**line}
    if gaussian:
        results["close"] = {**line, "shares": [-0.01, 0.01]}
    return replace(EXPERIMENTS["lqr-gradient"].run(method, 3_000, seed, mode), results=results)


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_each_log_has_a_panel() -> None:
    names = ("nopg-d", "local", "dpg", "dpg-full", "nopg-d-covering", "local-covering", "nopg-s")
    records = [record(name, seed) for name in names for seed in (0, 1)]
    records.append(record("pwis", 0, cosines=(None, None)))
    figure = EXPERIMENTS["lqr-gradient"].draw(records)
    titles = ["printed log", "covering log (ours)", "printed log, Gaussian policies"]
    assert [a.get_title() for a in figure.axes] == titles
    assert legend_of(figure.axes[0])[0] == "supported by 1 to all logs"
    assert legend_of(figure.axes[1]) == ["NOPG-D, paper's model", "NOPG-D, LocalModel"]
    figure.savefig(io.BytesIO(), format="png")


def test_a_method_without_records_is_left_out() -> None:
    figure = EXPERIMENTS["lqr-gradient"].draw([record("nopg-d", 0)])
    assert legend_of(figure.axes[0]) == ["supported by 1 to all logs", "NOPG-D, paper's model"]
    assert figure.axes[1].get_legend() is None


def test_records_with_the_supplements_settings_are_not_drawn() -> None:
    figure = EXPERIMENTS["lqr-gradient"].draw([record("nopg-d", 0, mode="faithful")])
    assert figure.axes[0].get_legend() is None
