"""Learning curves as pictures: what they say, and that the same records give the same bytes."""

from pathlib import Path
from typing import Any

import pytest

from nopg.report._style import save
from paper_studies.study_records import learning_record, study
from studies.paper._experiment import Mode

BOTH: tuple[Mode, ...] = ("ours", "faithful")


def labels(ax: Any) -> list[str]:
    return [str(text) for text in ax.get_legend_handles_labels()[1]]


def test_each_mode_has_a_panel_with_the_papers_line() -> None:
    records = [
        learning_record("pendulum-grid", method, size, seed, -400.0 + seed, mode=mode)
        for method in ("nopg-d", "nopg-s")
        for size in (200, 450)
        for seed in range(3)
        for mode in BOTH
    ]
    figure = study("pendulum-grid").draw(records)
    assert [ax.get_title() for ax in figure.axes] == ["default model", "supplement's settings"]
    ours = figure.axes[0]
    assert labels(ours) == ["NOPG-D", "NOPG-D, the paper's", "NOPG-S", "NOPG-S, the paper's", "solved"]
    assert ours.lines[0].get_ydata().tolist() == [-399.0, -399.0]
    assert ours.lines[1].get_ydata()[0] == -3775.2
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_online_methods_are_drawn_by_the_best_so_far() -> None:
    record = learning_record(
        "cart-pole", "ddpg-online", 3000, 0, 50.0, 900.0, 200.0, transitions=(1000, 2000, 3000)
    )
    (ax,) = study("cart-pole").draw([record]).axes
    assert ax.lines[0].get_xdata().tolist() == [1000, 2000, 3000]
    assert ax.lines[0].get_ydata().tolist() == [50.0, 900.0, 900.0]
    assert "steps taken" in ax.get_xlabel()


def test_the_mountain_car_shows_a_drive_and_its_demonstrator() -> None:
    drives = {"demonstrated": [[-0.5, 0.0], [-0.4, 0.01]], "learned": [[-0.5, 0.0], [0.46, 0.05]]}
    records = [
        learning_record("mountain-car", "nopg-d", 2, 0, -90.0, demonstrator=-350.0, drives=drives),
        learning_record("mountain-car", "nopg-d", 2, 0, -1.0, demonstrations="other.csv", demonstrator=-1.0),
    ]
    curves, drive = study("mountain-car").draw(records).axes
    assert curves.lines[0].get_ydata().tolist() == [-90.0]  # the package's own demonstrations only
    assert "demonstrator" in labels(curves)
    assert labels(drive) == ["demonstration (2 states)", "learned (2 states)", "goal"]


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    records = [learning_record("cart-pole", "nopg-d", 500, seed, 9000.0 + seed) for seed in range(3)]
    written = [save(study("cart-pole").draw(records), tmp_path / name) for name in ("a", "b")]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("modes", [("ours",), BOTH])
def test_the_legend_fits_below_the_panels(modes: tuple[Mode, ...]) -> None:
    methods = ("nopg-d", "nopg-s", "pwis", "ddpg-offline", "ddpg-online")
    records = [
        learning_record("pendulum-random", method, 500, 0, -400.0, mode=mode)
        for method in methods
        for mode in modes
    ]
    figure = study("pendulum-random").draw(records)
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
