"""The pictures of a training: what they show, what they say, and that they come out the same."""

import csv
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.text import Text

import nopg
from evaluation.small_trainings import (
    Trained,
    cart_pole,
    far_car,
    far_tank,
    mountain_car,
    pendulum,
    regulator,
    tank,
    trained,
)
from nopg.errors import ArgumentError, SupportWarning
from nopg.evaluation import map_states
from nopg.report import Picture, result_pictures, save_pictures
from nopg.report._maps import draw_policy
from nopg.report._state_marks import Marks
from nopg.report._training_figure import training_table


@cache
def local() -> Trained:
    """Four columns on the local model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # a short training need not beat the log
        return trained(cart_pole().data, model="local", start="given", updates=2)


PLANTS = [pendulum, mountain_car, regulator, cart_pole, tank, local]
NAMES = ["training", "value", "visitation", "policy"]


@cache
def pictures(plant: Callable[[], Trained]) -> Mapping[str, Picture]:
    return result_pictures(plant().result, plant().data)


def result_figures(*arguments: Any, **options: Any) -> dict[str, Any]:
    return {name: picture.figure for name, picture in result_pictures(*arguments, **options).items()}


def figure_of(plant: Callable[[], Trained], name: str) -> Any:
    return pictures(plant)[name].figure


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def hatches(figure: Any) -> list[Any]:
    return [a for a in figure.findobj(lambda artist: bool(getattr(artist, "hatches", None))) if a.hatches[0]]


@pytest.mark.parametrize("plant", PLANTS)
def test_every_plant_has_four_pictures_none_of_whose_words_is_cut_off(plant: Callable[[], Trained]) -> None:
    assert list(pictures(plant)) == NAMES
    for name in NAMES:
        figure = figure_of(plant, name)
        whole_words(figure)
        panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
        assert sum(axes.get_position().height for axes in panels) > 0.6  # of the paper


def whole_words(figure: Any) -> None:
    figure.draw_without_rendering()
    paper = figure.bbox.padded(1.0)  # a pixel, by which text is measured
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            inside = paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 <= box.y0 and box.y1 <= paper.y1
            # Ticks beyond the end of an axis have words that are not drawn.
            assert inside or text in undrawn(figure), text.get_text()


def undrawn(figure: Any) -> list[Any]:
    beyond = []
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    beyond += [tick.label1, tick.label2]
    return beyond


def test_a_map_is_coloured_by_the_value_of_the_result() -> None:
    result = pendulum().result
    axes = figure_of(pendulum, "value").axes[0]
    (mesh,) = axes.findobj(QuadMesh)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x, y = np.linspace(left, right, 61), np.linspace(low, high, 61)
    states = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    wanted = result.value(states).clip(mesh.norm.vmin, mesh.norm.vmax)
    assert np.allclose(np.asarray(mesh.get_array()).ravel(), wanted, rtol=1e-9)
    assert mesh.norm.vmax == pytest.approx(wanted.max())


def test_axes_say_name_and_unit_and_angles_their_quarters() -> None:
    axes = figure_of(pendulum, "policy").axes
    assert (axes[0].get_xlabel(), axes[0].get_ylabel()) == ("angle in rad", "velocity in rad/s")
    assert axes[1].get_ylabel() == "torque in N m"
    assert [tick.get_text() for tick in axes[0].get_xticklabels()] == ["−π", "−π/2", "0", "π/2", "π"]


def test_degrees_keep_their_numbers() -> None:
    figures = result_figures(trained(in_degrees(pendulum().data), updates=1).result)
    labels = [tick.get_text() for tick in figures["value"].axes[0].get_xticklabels()]
    assert labels == ["−180", "−90", "0", "90", "180"]


def in_degrees(data: nopg.Transitions) -> nopg.Transitions:
    per_radian = torch.tensor([180 / math.pi, 1.0])
    return replace(
        data,
        states=data.states * per_radian,
        next_states=data.next_states * per_radian,
        initial_states=None,
        schema=replace(data.schema, angles={"angle": 360.0}),
    )


def test_visits_have_a_log_scale_with_a_floor_and_say_so() -> None:
    figure = figure_of(mountain_car, "visitation")
    mesh, bar = figure.axes[0].collections[0], figure.axes[1]
    low, high = mesh.get_clim()
    assert isinstance(mesh.norm, LogNorm)
    assert low == pytest.approx(1e-4 * high)
    assert float(np.asarray(mesh.get_array()).min()) >= low * (1 - 1e-12)
    assert "log scale, floor at $10^{-4}$" in bar.get_ylabel()


def test_what_no_data_speak_for_is_covered_and_hatched() -> None:
    for name in NAMES[1:]:
        figure = figure_of(far_car, name)
        (cover,) = hatches(figure)
        assert cover.get_facecolor()[0, 3] == 1.0  # nothing shines through
        assert "hatched: outside the data" in figure.get_supxlabel()
        assert not hatches(figure_of(pendulum, name))
        assert "hatched" not in figure_of(pendulum, name).get_supxlabel()

    table, (cover,) = pictures(far_car)["value"].table, hatches(figure_of(far_car, "value"))
    (covered,) = cover.get_paths()
    places = np.stack([table["position"], table["velocity"]], axis=1)
    reach = np.ptp(places, axis=0)
    rim = np.abs(table["unknown"] - 0.5) > 0.49  # the line runs between two cells
    inner = (np.abs(places - places.mean(axis=0)) < 0.49 * reach).all(axis=1)
    drawn = covered.contains_points(places[rim & inner])
    assert np.array_equal(drawn, table["unknown"][rim & inner] > 0.5)
    assert 0 < drawn.sum() < len(drawn)


def test_one_column_is_a_curve_with_gaps() -> None:
    picture = pictures(far_tank)["value"]
    (axes,) = picture.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("level in m", "discounted return in €")
    curve = np.asarray(axes.lines[0].get_ydata())
    assert np.array_equal(np.isnan(curve), picture.table["unknown"] > 0.5)
    assert np.array_equal(curve[~np.isnan(curve)], picture.table["value"][~np.isnan(curve)])
    assert 0 < np.isnan(curve).sum() < len(curve)
    assert "hatched: outside the data" in picture.figure.get_supxlabel()


def test_every_action_has_a_panel() -> None:
    picture = pictures(regulator)["policy"]
    maps, bars = picture.figure.axes[:2], picture.figure.axes[2:]
    assert [bar.get_ylabel() for bar in bars] == ["u1", "u2"]
    for axes, name in zip(maps, ("u1", "u2"), strict=True):
        drawn, scale = np.asarray(axes.collections[0].get_array()), axes.collections[0].get_clim()
        # Outside the data, below the hatches, colours end at those inside.
        assert np.allclose(drawn.T.ravel(), picture.table[name].clip(*scale))
        inside = picture.table["unknown"] <= 0.5
        assert scale == pytest.approx((picture.table[name][inside].min(), picture.table[name][inside].max()))


def test_the_title_says_where_other_columns_are_held() -> None:
    held = {"velocity": 0.25, "angular_velocity": -0.5}
    figures = result_figures(cart_pole().result, columns=["position", "angle"], held=held)
    for name in NAMES[1:]:
        assert "at velocity = 0.25, angular_velocity = −0.5" in figures[name].get_suptitle()
    assert "held" not in figures["training"].get_suptitle()


def test_logged_states_are_dots_where_their_other_columns_are_near() -> None:
    assert not any("dots" in text for text in texts(result_figures(pendulum().result)["value"]))
    dots, start = figure_of(pendulum, "value").axes[0].lines
    assert len(dots.get_xydata()) == len(pendulum().data)
    assert len(start.get_xydata()) == 1

    case = cart_pole()
    figure: Any = result_figures(case.result, case.data, columns=["position", "angle"])["value"]
    shown = len(figure.axes[0].lines[0].get_xydata())
    assert 0 < shown < len(case.data)
    assert "logged states within 0.5 standard deviations of the held values" in figure.get_supxlabel()
    near = figure_of(local, "value").get_supxlabel()
    assert "logged states within 0.5 standard deviations of the held values" in near
    far = result_figures(case.result, case.data, columns=["position", "angle"], held={"velocity": 50.0})
    assert "no logged state lies" in far["value"].get_supxlabel()


def test_of_many_logged_states_some_are_dots() -> None:
    many = pendulum().data.take(torch.arange(200).repeat(7))
    figure = result_figures(pendulum().result, many)["policy"]
    assert "dots: 1000 of 1400 logged states" in figure.get_supxlabel()


def test_far_from_all_data_nothing_is_drawn_but_hatches() -> None:
    figures = result_figures(cart_pole().result, held={"velocity": 50.0})
    for name in NAMES[1:]:
        (axes,) = figures[name].axes  # no colour bar
        assert hatches(figures[name])
        assert not axes.findobj(QuadMesh)
        figures[name].draw_without_rendering()
        assert axes.get_position().height > 0.7  # of the paper


def test_a_policy_that_does_the_same_everywhere_has_a_scale_around_it() -> None:
    result, data = regulator().result, regulator().data
    found = map_states(result.solution, data.schema, points=3)
    same = replace(found, actions=np.stack([np.zeros((3, 3)), np.full((3, 3), -4.0)], axis=-1))
    figure: Any = draw_policy(
        same, Marks.of(same, None, result.problem.multistep.state_widths, within=2.0, unit="bandwidths")
    )
    assert [bar.get_ylim() for bar in figure.axes[2:]] == [(-0.5, 0.5), (-6.0, -2.0)]


def test_the_training_is_drawn_update_by_update_and_ends_in_the_answer() -> None:
    result = pendulum().result
    figure = figure_of(pendulum, "training")
    above, middle, below = figure.axes
    for axes, name, factor in (
        (above, "expected_return", 1.0),
        (middle, "unknown_mass", 100.0),
        (below, "gradient_norm", 1.0),
    ):
        course = axes.lines[0]
        assert course.get_xdata().tolist() == [0, 1, 2, 3, 4]
        assert course.get_ydata().tolist() == [factor * getattr(update, name) for update in result.history]
    assert above.lines[1].get_xydata().tolist() == [[5.0, result.expected_return]]
    assert len(below.lines) == 1
    assert figure.get_supxlabel() == ""  # the paper's equation has no interval


def test_the_answer_of_the_local_model_is_drawn_with_its_interval() -> None:
    result, figure = local().result, figure_of(local, "training")
    (bar,) = figure.axes[0].lines[2:]
    low, high = bar.get_ydata()
    assert (low, high) == result.interval
    assert bar.get_xdata().tolist() == [len(result.history)] * 2
    assert low < figure.axes[0].lines[1].get_ydata()[0] < high
    assert "curve: lower end of the interval" in " ".join(figure.get_supxlabel().split())


def test_the_numbers_of_a_training_end_with_the_answer() -> None:
    table = training_table(tank().result)
    assert table["updates"].tolist() == [0, 1, 2, 3, 4, 5]
    assert table["expected_return"][-1] == tank().result.expected_return
    assert math.isnan(table["gradient_norm"][-1])


def test_one_update_without_a_gradient_can_be_drawn() -> None:
    result = tank().result
    still = replace(result, history=(replace(result.history[0], gradient_norm=0.0, unknown_mass=0.0),))
    result_figures(still)["training"].draw_without_rendering()


@pytest.mark.slow
def test_the_same_result_gives_the_same_bytes_and_the_numbers_behind_them(tmp_path: Path) -> None:
    case = mountain_car()
    written = [
        save_pictures(result_pictures(case.result, case.data), tmp_path / folder) for folder in ("a", "b")
    ]
    kinds = [path.name for path in written[0]]
    assert kinds == [f"{name}.{kind}" for name in NAMES for kind in ("png", "pdf", "csv")]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()

    with (tmp_path / "a" / "value.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    states = [[float(row["position"]), float(row["velocity"])] for row in rows]
    assert [float(row["value"]) for row in rows] == pytest.approx(case.result.value(states), rel=1e-9)
    assert (tmp_path / "a" / "training.csv").read_text(encoding="utf-8").splitlines()[-1].endswith(",")


def test_a_column_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"'speed'; the columns are \['angle', 'velocity'\]"):
        result_figures(pendulum().result, columns=["angle", "speed"])


def test_data_of_another_plant_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give the data it was trained on"):
        result_figures(pendulum().result, tank().data)


def test_long_names_and_money_do_not_break_the_words() -> None:
    case = cart_pole()
    names = {
        "position": "Building 4 / Air handling unit 12 / supply air temperature, measured after the heater",
        "angle": "plant$7$angle",
        "velocity": "x_{1}^2",
        "angular_velocity": "W" * 80,
    }
    action = "AHU_12.SUPPLY_FAN.SPEED_SETPOINT_AFTER_RAMP.PRESENT_VALUE"
    schema = replace(
        case.data.schema,
        states=tuple(names.values()),
        actions=(action,),
        angles={names["angle"]: 2 * math.pi},
        units={names["position"]: "°C", action: "% of 1 450 $/min", "reward": "$ and $"},
    )
    data = replace(case.data, schema=schema)
    result = replace(case.result, policy=replace(case.result.policy, schema=schema))
    for figure in result_figures(result, data).values():
        whole_words(figure)
