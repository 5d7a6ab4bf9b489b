"""Maps over the states: they say what the result says, and where they run."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nopg
from evaluation.small_trainings import (
    Trained,
    cart_pole,
    far_car,
    hanging,
    mountain_car,
    pendulum,
    regulator,
    tank,
    trained,
)
from nopg.data import Schema
from nopg.errors import ArgumentError
from nopg.evaluation import StateMap, map_states
from nopg.evaluation._state_map import StateSlice

PLANTS = [pendulum, mountain_car, regulator, cart_pole, tank]


def mapped(case: Trained, **settings: object) -> StateMap:
    return map_states(case.result.solution, case.result.policy.schema, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_map_says_what_the_result_says_at_its_states(plant: Callable[[], Trained]) -> None:
    result = plant().result
    found = mapped(plant(), points=9)
    states = found.slice.states().numpy()
    for name, values in (
        ("value", result.value(states)),
        ("visitation", result.visitation(states)),
        ("unknown", result.unknown_at(states)),
        ("actions", np.asarray(result.policy(states))),
    ):
        drawn = getattr(found, name)
        assert drawn.shape[: len(found.slice.axes)] == found.slice.shape
        # The sums are the same but for their order.
        assert np.allclose(drawn.reshape(values.shape), values, rtol=1e-9, atol=1e-12)


def test_the_state_of_a_cell_is_where_its_axes_say() -> None:
    case = pendulum()
    found = mapped(case, points=7)
    (angles, speeds), schema = found.slice.axes, case.result.policy.schema
    assert schema.states == ("angle", "velocity") == found.slice.columns
    for i, j in ((0, 3), (5, 1), (2, 6)):
        here = case.result.value([[angles[i], speeds[j]]])
        # Alone, a state may be given other candidates than among many.
        assert found.value[i, j] == pytest.approx(here[0], rel=1e-3)


@pytest.mark.parametrize("plant", PLANTS)
def test_outside_is_where_more_than_half_is_unknown(plant: Callable[[], Trained]) -> None:
    found = mapped(plant(), points=21)
    unknown = plant().result.unknown_at(found.slice.states()).reshape(found.slice.shape)
    assert np.array_equal(found.outside, unknown > 0.5)


def test_some_of_the_plants_have_an_outside_and_some_have_none() -> None:
    shares = [float(mapped(plant(), points=15).outside.mean()) for plant in (*PLANTS, far_car)]
    assert min(shares) == 0.0
    assert max(shares) > 0.2


def test_without_prior_mass_of_the_papers_model_a_map_still_has_an_outside() -> None:
    with pytest.warns(nopg.errors.SupportWarning):
        case = trained(far_car().data, model="paper", prior_mass=0.0)
    found = mapped(case, points=15)
    assert float(case.result.solution.unknown_at(case.data.features).max()) == 0.0
    assert float(found.unknown.max()) > 0.5
    assert np.array_equal(found.outside, found.unknown > 0.5)


def test_an_angle_has_one_period_in_its_own_unit() -> None:
    axis = mapped(pendulum()).slice.axes[0]
    assert (axis[0], axis[-1]) == pytest.approx((-math.pi, math.pi))
    data = pendulum().data
    degrees = nopg.Transitions.from_arrays(
        data.states * torch.tensor([180 / math.pi, 1.0]),
        data.actions,
        data.rewards,
        data.next_states * torch.tensor([180 / math.pi, 1.0]),
        angles={"s0": 360.0},
        bounds={"s0": (0.0, 360.0)},
    )
    axis = mapped(trained(degrees, updates=1), columns=["s0"]).slice.axes[0]
    assert (axis[0], axis[-1]) == (0.0, 360.0)


@pytest.mark.parametrize("turn", [2 * math.pi, 360.0])
def test_an_angle_that_keeps_to_an_arc_has_that_arc_without_a_seam(turn: float) -> None:
    found = mapped(trained(hanging(turn), updates=1))
    axis, radians = found.slice.axes[0], 2 * math.pi / turn
    assert (axis[-1] - axis[0]) * radians == pytest.approx(1.1, abs=0.02)
    assert math.cos((axis[0] + axis[-1]) / 2 * radians) == pytest.approx(-1.0, abs=1e-3)
    assert found.outside.mean() < 0.1


def test_an_arc_lies_on_the_turn_around_zero() -> None:
    axis = mapped(cart_pole(), columns=["angle"]).slice.axes[0]
    assert -0.2 < axis[0] < 0.0 < axis[-1] < 0.2


def test_the_columns_chosen_are_those_along_which_the_visits_spread_most() -> None:
    result = cart_pole().result
    states, mu = result.solution.visited()
    nodes = result.policy.schema.encode(states)
    h, spread = result.problem.multistep.state_widths, dict.fromkeys(result.policy.schema.states, 0.0)
    for k, column in enumerate(result.policy.schema.feature_columns):
        x = nodes[:, k] / h[k]
        mean = float((mu * x).sum() / mu.sum())
        variance = float((mu * (x - mean) ** 2).sum() / mu.sum())
        spread[result.policy.schema.states[column]] += variance
    widest = sorted(spread, key=lambda name: spread[name])[-2:]
    assert set(mapped(cart_pole(), points=3).slice.columns) == set(widest)


def test_other_columns_are_held_together_at_a_place_that_was_seen() -> None:
    case = cart_pole()
    where = mapped(case, points=3).slice
    columns = [case.data.schema.states.index(name) for name in where.held]
    held = torch.tensor(list(where.held.values()), dtype=torch.float64)
    states, _ = case.result.solution.visited()
    nodes = states[:, columns]
    assert float((nodes - held).abs().sum(dim=1).min()) < 1e-12


def test_what_the_user_holds_is_held_and_the_rest_is_chosen() -> None:
    where = mapped(cart_pole(), held={"angle": 0.01, "velocity": 0.2}, points=3).slice
    assert where.columns == ("position", "angular_velocity")
    assert dict(where.held) == {"angle": 0.01, "velocity": 0.2}
    states = where.states()
    assert states[:, 1].tolist() == [0.01] * 9
    assert states[:, 2].tolist() == [0.2] * 9
    assert states[0, 0] == states[1, 0] != states[3, 0]  # the last axis varies fastest


def test_columns_may_be_named_in_any_order_and_one_alone() -> None:
    where = mapped(cart_pole(), columns=["velocity", "position"], points=3).slice
    assert where.columns == ("velocity", "position")
    assert set(where.held) == {"angle", "angular_velocity"}
    assert mapped(cart_pole(), columns="angle", points=5).value.shape == (5,)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": ["angel"]}, r"no state column 'angel'; the columns are \['angle', 'velocity'\]"),
        ({"held": {"torque": 1.0}}, r"no state column 'torque'; the columns are \['angle', 'velocity'\]"),
        ({"columns": ["angle", "angle"]}, "one or two different ones"),
        ({"columns": []}, "one or two different ones"),
        ({"columns": ["angle"], "held": {"angle": 0.0}}, "cannot both vary and be held"),
        ({"held": {"angle": 0.0, "velocity": 0.0}}, "let at least one vary"),
        ({"held": {"angle": math.nan}}, "held at nan"),
        ({"points": 1}, "at least 2"),
    ],
)
def test_what_cannot_be_mapped_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        mapped(pendulum(), **settings)


def test_an_axis_holds_the_start_even_where_no_data_are() -> None:
    data = tank().data.starting_at([[7.0]])
    with pytest.warns(nopg.errors.SupportWarning):
        case = trained(data, updates=1)
    found = mapped(case)
    assert found.slice.axes[0][-1] == 7.0
    assert bool(found.outside[-1])


def test_a_spike_among_many_rows_does_not_stretch_an_axis() -> None:
    level = torch.linspace(-2.0, 2.0, 1_500).double()
    level[7] = 1e6
    after = torch.where(level > 2.0, level, 0.9 * level)  # the spike stays, so its place is known
    data = nopg.Transitions.from_arrays(
        level, torch.linspace(-1, 1, 1_500).roll(611).double(), -level.abs(), after
    )
    case = trained(
        data.starting_at([[0.0]]),
        updates=1,
        model="paper",
        bandwidths=nopg.Bandwidths.from_values([0.1], [0.5]),
    )
    (axis,) = mapped(case).slice.axes
    assert (axis[0], axis[-1]) == pytest.approx((-1.8, 1.8), abs=0.01)


def test_a_column_that_never_changes_still_has_an_axis() -> None:
    x = torch.linspace(-1.0, 1.0, 30).double()
    states = torch.stack([x, torch.full_like(x, 3.0)], dim=1)
    data = nopg.Transitions.from_arrays(states, x.roll(11), -x.square(), states)
    case = trained(
        data,
        updates=1,
        model="paper",
        bandwidths=nopg.Bandwidths.from_values([0.2, 0.2], [0.5]),
    )
    assert [float(axis[0]) for axis in mapped(case).slice.axes] == [-1.0, 1.5]


def test_a_table_has_a_row_for_every_state_of_the_grid() -> None:
    found = mapped(regulator(), points=5)
    table = found.table()
    assert list(table) == ["x1", "x2", "u1", "u2", "value", "visitation", "unknown"]
    assert {len(column) for column in table.values()} == {25}
    values = regulator().result.value(np.stack([table["x1"], table["x2"]], axis=1))
    assert np.allclose(table["value"], values, rtol=1e-9)
    assert list(found.table("value")) == ["x1", "x2", "value", "unknown"]


def test_an_estimate_never_hides_a_column_of_the_same_name() -> None:
    x = torch.linspace(-1.0, 1.0, 30).double()
    data = nopg.Transitions.from_arrays(
        x, x.roll(11), -x.square(), 0.5 * x, state_names=["value"], action_names=["value_"]
    )
    found = mapped(trained(data, updates=1), points=4)
    table = found.table()
    assert list(table) == ["value", "value_", "value__", "visitation", "unknown"]
    assert np.array_equal(table["value"], found.slice.axes[0])


SCHEMA = Schema(("angle", "speed", "height"), ("torque",), {"angle": 360.0})
SLICE = StateSlice(SCHEMA, ("angle", "height"), (np.linspace(-180, 180, 3), np.zeros(2)), {"speed": 2.0})


@given(st.floats(-1e4, 1e4), st.floats(-5, 5))
def test_states_are_projected_on_their_turn(angle: float, height: float) -> None:
    ((x, y),) = SLICE.project(torch.tensor([[angle, 0.0, height]], dtype=torch.float64))
    assert -180 <= x <= 180
    assert y == height
    assert math.cos(math.radians(x - angle)) == pytest.approx(1.0)


def test_an_angle_a_rounding_below_the_axis_stays_at_its_beginning() -> None:
    below = torch.tensor([[-180.0 - 1e-10, 0.0, 0.0]], dtype=torch.float64)
    assert SLICE.project(below)[0, 0] == -180.0


def test_near_is_measured_along_the_held_columns_only() -> None:
    widths = torch.tensor([0.1, 0.1, 0.5, 0.1], dtype=torch.float64)
    states = torch.tensor([[100.0, 2.9, 50.0], [0.0, 3.1, 0.0]], dtype=torch.float64)
    assert SLICE.near(states, widths, within=2.0).tolist() == [True, False]
