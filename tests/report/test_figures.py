"""Figures of a report: the closed loop, where actions differ, axes, labels, tables."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from nopg.data import Transitions
from nopg.evaluation import OfflineEvaluator
from nopg.report import save_pictures
from nopg.report._figures import (
    ClosedLoop,
    closed_loops,
    column_order,
    differences,
    draw_loop,
)
from nopg.report._style import csv_table
from report.reported_log import tank_log


def flat_loop(steps: int, columns: int, *, unknown_from: int | None = None) -> ClosedLoop:
    after = np.linspace(0.0, 1.0, steps)[:, None] + np.zeros(columns)
    return ClosedLoop(1.0, after + 1.0, after, np.full_like(after, 0.1), after[:3] + 2.0, unknown_from)


def whole_words(figure: Any) -> None:
    """Check that no word is cut off."""
    figure.draw_without_rendering()
    paper = figure.bbox.padded(1.0)
    ticks = {
        tick for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_ticklabels()
    }
    for text in set(figure.findobj(Text)) - ticks:
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert paper.x0 <= box.x0, text.get_text()
            assert box.x1 <= paper.x1, text.get_text()
            assert paper.y0 <= box.y0, text.get_text()
            assert box.y1 <= paper.y1, text.get_text()


def test_both_loops_begin_in_the_logged_start_and_the_log_is_what_was_measured() -> None:
    data = tank_log("level")
    evaluator = OfflineEvaluator(data, 0.7)
    policy, logged = evaluator.assess(lambda s: 0 * s[:, :1] + 0.4), evaluator.logged()
    loops = closed_loops(policy, logged, data)
    assert list(loops) == ["median", "least"]
    for loop in loops.values():
        (start,) = (data.starts[:, 0] == loop.measured[0, 0]).nonzero()[0].tolist()
        assert loop.before[0, 0] == loop.after[0, 0] == loop.measured[0, 0]
        assert loop.after[:, 1] == pytest.approx(0.4)
        rows = 10 * start + np.arange(len(loop.measured))
        assert loop.measured[:, 0] == pytest.approx(data.states[rows, 0].numpy())
        assert loop.measured[:, 2] == pytest.approx(data.rewards[rows].numpy())
        assert len(loop.measured) == min(10, len(loop.after))
    gains = policy.paths.returns[0, :12] - logged.paths.returns[0, :12]
    assert loops["least"].gain == pytest.approx(float(gains.min()))


def test_the_band_is_1_96_times_the_inflated_deviation_of_the_parts() -> None:
    data = tank_log("level")
    policy = OfflineEvaluator(data, 0.7).assess(lambda s: 0 * s[:, :1] + 0.4)
    loop = closed_loops(policy, policy, data)["median"]
    m = policy.paths.returns.shape[1]
    (start,) = (policy.paths.states[0, :m, 0] == loop.after[0, 0]).nonzero()[0].tolist()
    parts = policy.paths.states[:, torch.arange(len(policy.paths.returns)) * m + start, 0]
    wanted = 1.96 * 1.3 * (parts[:, 1:] - parts[:, :1]).square().mean(dim=1).sqrt()
    assert loop.half[:, 0] == pytest.approx(wanted.numpy())
    assert loop.half[0, 0] == 0.0


def test_set_points_are_drawn_with_their_outputs_and_of_many_columns_the_rest_is_apart() -> None:
    states = np.random.default_rng(0).normal(size=(50, 7))
    names = [*"abcdef", "goal"]
    data = Transitions.from_arrays(states, states[:, :1], -(states[:, 4] ** 2), states, state_names=names)
    first, others = column_order(data, {"c": "goal"})
    assert first[:2] == ["c", "e"]  # with a set-point; explains the reward
    assert len(first) == 5
    assert {*first, *others} == {*"abcdef", "a0"}


def test_a_loop_is_drawn_over_time_with_band_log_and_set_point() -> None:
    data = tank_log("level", {"level": "m"})
    schema = replace(data.schema, interval=60.0)
    picture = draw_loop(flat_loop(10, 3, unknown_from=4), ["level", "valve"], {"level": 0.5}, schema, "text")
    axes = picture.figure.axes
    assert [one.get_title(loc="left") for one in axes] == ["level [m]", "valve"]
    assert axes[-1].get_xlabel() == "time [min]"
    assert axes[0].get_xlim() == (0.0, 9.0)
    (legend,) = picture.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "95 % of the model",
        "log",
        "before",
        "after",
        "set-point",
        "outside the data",
    ]
    table = picture.table
    assert table["time [min]"].tolist() == list(range(10))
    assert table["level high"] - table["level low"] == pytest.approx(0.2)
    assert table["level set-point"].tolist() == [0.5] * 10
    assert np.isnan(table["level logged"][3:]).all()
    whole_words(picture.figure)


@pytest.mark.parametrize(
    "name", ["W" * 80, "plant$7$level", "x_{1}^2", "a\u202eb", "<script>", "Zulauf m³/h"]
)
def test_no_name_breaks_a_figure(name: str) -> None:
    schema = tank_log(name, {name: "% of 1 450 $/min", "valve": "°C", "reward": "$ and $"}).schema
    picture = draw_loop(flat_loop(10, 3), [name, "valve"], {}, schema, "text")
    whole_words(picture.figure)
    above, below = (cast(Bbox, axes.get_tightbbox()) for axes in picture.figure.axes)
    assert above.y0 >= below.y1 - 1  # nothing overlaps
    text = "".join(axes.get_title(loc="left") for axes in picture.figure.axes)
    assert "\u202e" not in text


def test_differences_are_those_of_the_actions_at_logged_states() -> None:
    data = tank_log("level")
    with_other = replace(
        data,
        states=torch.cat(
            [data.states, torch.rand(120, 1, generator=torch.Generator().manual_seed(0)).double()], 1
        ),
    )
    schema = replace(data.schema, states=("level", "other"))
    result: Any = type("Result", (), {})()
    result.data = replace(with_other, next_states=with_other.states, schema=schema, initial_states=None)
    result.policy = lambda states: 0.1 + 0.5 * states[:, :1]
    (one,), pictures = differences(result)
    apart = 0.1 + 0.5 * data.states[:, 0] - data.actions[:, 0]
    span = float(data.actions.max() - data.actions.min())
    size = float(apart.abs().mean())
    assert one["mean"] == pytest.approx(float(apart.mean()))
    assert (one["size"], one["share"]) == pytest.approx((size, size / span))
    assert one["higher"] == pytest.approx(float((apart > 0.01 * span).double().mean()))
    assert one["column"] == "level"
    assert list(pictures["difference-1"].table) == ["level", "valve logged", "valve new"]


@pytest.mark.parametrize("name", ["=1+1", "+level", "-level", "@SUM(A1)", "\tlevel"])
def test_a_name_that_looks_like_a_formula_is_text(name: str) -> None:
    (head,), *rows = csv.reader(io.StringIO(csv_table({name: np.array([-1.5, 2.0])})))
    assert head.startswith("'")
    assert rows == [["-1.5"], ["2.0"]]


def test_the_same_figure_gives_the_same_bytes_and_its_numbers(tmp_path: Path) -> None:
    schema = tank_log("level").schema
    for folder in ("a", "b"):
        picture = draw_loop(flat_loop(10, 3), ["level"], {}, schema, "text")
        written = save_pictures({"loop": picture}, tmp_path / folder)
        assert [path.name for path in written] == ["loop.png", "loop.pdf", "loop.csv"]
    for kind in ("png", "pdf", "csv"):
        assert (tmp_path / "a" / f"loop.{kind}").read_bytes() == (
            tmp_path / "b" / f"loop.{kind}"
        ).read_bytes()
    head = (tmp_path / "a" / "loop.csv").read_text().splitlines()[0]
    assert head == "step,level before,level after,level low,level high,level logged"
