"""Transitions on entry: what is refused with which message, what is kept and how it is shown."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from nopg._checks import check_discount
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError


def arrays(rows: int = 4) -> dict[str, Any]:
    """Four arguments of `from_arrays` with two state columns, one action column and no equal values."""
    rng = np.random.default_rng(0)
    return {
        "states": rng.normal(size=(rows, 2)),
        "actions": rng.normal(size=(rows, 1)),
        "rewards": rng.normal(size=rows),
        "next_states": rng.normal(size=(rows, 2)),
    }


def dataset(**changes: Any) -> Transitions:
    return Transitions.from_arrays(**arrays() | changes)


def with_entry(name: str, place: tuple[int, ...], value: float) -> dict[str, Any]:
    changed = arrays()
    changed[name][place] = value
    return changed


# Numbers that are not numbers.


@pytest.mark.parametrize(
    ("name", "place", "label"),
    [
        ("states", (2, 1), "state column 'speed'"),
        ("actions", (2, 0), "action column 'torque'"),
        ("rewards", (2,), "the reward"),
        ("next_states", (2, 0), "the next state of 'angle'"),
    ],
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_named_by_column_and_row(
    name: str, place: tuple[int, ...], label: str, value: float
) -> None:
    changed = with_entry(name, place, value)
    with pytest.raises(DataError) as caught:
        Transitions.from_arrays(**changed, state_names=["angle", "speed"], action_names=["torque"])
    assert f"{label} has 1 missing or infinite value (row 2)" in str(caught.value)
    assert "leave these rows out" in str(caught.value)


# Shapes, kinds and counts.


@pytest.mark.parametrize("name", ["states", "actions", "rewards", "next_states", "initial_states"])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (np.array([["1.0", "2.0"]] * 4), "dtype <U3"),
        (np.array([[1.0, None]] * 4), "dtype object"),
        (np.array([[1j, 2j]] * 4), "dtype complex128"),
        (torch.tensor([[1j, 2j]] * 4), "dtype complex64"),
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), "dtype datetime64"),
        ([[1.0], [1.0, 2.0], [1.0], [1.0]], "different lengths"),
    ],
)
def test_text_objects_and_complex_numbers_are_refused_by_name(name: str, wrong: Any, reason: str) -> None:
    with pytest.raises(DataError, match=f"{name} (has|is) .*{reason}"):
        dataset(**{name: wrong})


@pytest.mark.parametrize("name", ["states", "actions", "next_states"])
@pytest.mark.parametrize("shape", [(), (4, 2, 1), (4, 0)])
def test_matrices_of_other_shapes_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"{name} has"):
        dataset(**{name: np.zeros(shape)})


@pytest.mark.parametrize("name", ["rewards", "terminated", "truncated", "episodes"])
@pytest.mark.parametrize("shape", [(), (4, 2), (4, 1, 1)])
def test_vectors_of_other_shapes_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"{name} has shape .*one number per row"):
        dataset(**{name: np.zeros(shape)})


@pytest.mark.parametrize("name", ["states", "actions", "rewards", "next_states"])
def test_unequal_rows_are_refused_with_the_count_of_each(name: str) -> None:
    with pytest.raises(DataError, match=f"unequal numbers of rows: .*{name} 3"):
        dataset(**{name: arrays()[name][:3]})


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize(("value", "shown"), [(2, "2"), (-1, "-1"), (0.5, "0.5"), (math.nan, "nan")])
def test_flags_other_than_zero_and_one_are_refused(name: str, value: float, shown: str) -> None:
    with pytest.raises(DataError, match=rf"{name} must hold booleans or 0 and 1; row 2 has {shown}\."):
        dataset(**{name: [0, 1, value, 0]})


def test_episode_numbers_beyond_the_precision_of_floats_stay_apart() -> None:
    numbers = [2**53, 2**53 + 1, 2**62, 2**62 + 1]
    for episodes in (numbers, np.array(numbers), torch.tensor(numbers)):
        data = dataset(episodes=episodes)
        assert data.episodes is not None
        assert data.episodes.tolist() == numbers


@pytest.mark.parametrize("discount", [1.0, 1.5, -0.1, math.nan, math.inf])
def test_a_discount_outside_its_range_is_refused(discount: float) -> None:
    with pytest.raises(ArgumentError, match=r"it must lie in \[0, 1\)"):
        check_discount(discount)


# Names, angles and starts.


@pytest.mark.parametrize("names", [["x"], ["x", "y", "z"], "xy"])
def test_names_need_one_per_column(names: Any) -> None:
    with pytest.raises(DataError, match=r"state_names is .* but there are 2 columns"):
        dataset(state_names=names)
    with pytest.raises(DataError, match=r"action_names is .* but there are 1 columns"):
        dataset(action_names=["u", "v"])


def test_a_name_is_given_once() -> None:
    with pytest.raises(DataError, match=r"state_names \['x', 'x'\] holds a name twice"):
        dataset(state_names=["x", "x"])
    with pytest.raises(DataError, match=r"\['x'\] name both states and actions"):
        dataset(state_names=["x", "y"], action_names=["x"])


@pytest.mark.parametrize("number", [2, -3])
def test_an_angle_beyond_the_last_column_is_refused(number: int) -> None:
    with pytest.raises(DataError, match=f"angle column {number} does not exist; states have 2 columns"):
        dataset(angles=[number])


@pytest.mark.parametrize(
    "angles", [["s1"], [1], [-1], {"s1": 2 * math.pi}], ids=["name", "number", "from the end", "period"]
)
def test_an_angle_is_declared_by_name_by_number_or_with_its_period(angles: Any) -> None:
    assert dict(dataset(angles=angles).schema.angles) == {"s1": 2 * math.pi}


@pytest.mark.parametrize(
    ("starts", "reason"),
    [
        (np.zeros((3, 3)), "initial_states have 3 columns, states have 2"),
        (np.zeros((2, 1)), "initial_states have 1 columns, states have 2"),
        ([0.0, 0.0, 0.0], "initial_states have 3 columns, states have 2"),
        (np.zeros((0, 2)), "at least one state"),
        ([[0.0, math.nan]], "finite numbers only"),
        ([[0.0, math.inf]], "finite numbers only"),
        (np.zeros((2, 2, 1)), "initial_states has 3 dimensions"),
    ],
)
def test_impossible_initial_states_are_refused(starts: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        dataset(initial_states=starts)


def start_rows(data: Transitions) -> list[int] | None:
    return None if data.start_rows is None else data.start_rows.tolist()


@pytest.mark.parametrize(
    ("given", "rows", "kind"),
    [
        ({"initial_states": [[5.0, 6.0]], "episodes": [0, 0, 1, 1]}, None, "declared"),
        ({"episodes": [7, -2, 7, -2]}, [1, 0], "episodes"),
        ({"episodes": [3, 3, 3, 3]}, [0, 1, 2, 3], "rows"),
        ({"episodes": [3, 3, 3, 3], "truncated": [0, 0, 0, 1]}, [0, 1, 2, 3], "rows"),
        ({"episodes": [3, 3, 3, 3], "terminated": [0, 0, 0, 1]}, [0], "episodes"),
        ({"episodes": [0, 0, 1, 1], "begins": [0, 1, 0, 1]}, [1, 3], "episodes"),
        ({"episodes": [0, 0, 1, 1], "begins": [1, 1, 1, 1]}, [0, 1, 2, 3], "rows"),
        ({"begins": [0, 0, 1, 0]}, [2], "episodes"),
    ],
)
def test_the_task_starts_in_rows_of_the_log_or_in_declared_states(
    given: dict[str, Any], rows: list[int] | None, kind: str
) -> None:
    data = dataset(**given)
    assert (start_rows(data), data.start_kind) == (rows, kind)
    assert torch.equal(
        data.starts, torch.tensor([[5.0, 6.0]]).double() if rows is None else data.states[rows]
    )


def test_declared_starts_replace_marked_rows() -> None:
    data = dataset(begins=[0, 1, 0, 1])
    declared = data.starting_at([5.0, 6.0])
    assert declared.begins is None
    assert declared.starts.tolist() == [[5.0, 6.0]]
    assert data.with_starts(data.states[[1, 3]]) is data
    assert data.with_starts(declared.starts).start_kind == "declared"


def test_impossible_marks_are_refused() -> None:
    with pytest.raises(DataError, match="starts in no row of the log"):
        dataset(begins=[0, 0, 0, 0]).starts  # noqa: B018
    with pytest.raises(DataError, match="begins 3"):
        dataset(begins=[0, 1, 0])
    with pytest.raises(ArgumentError, match="give one of them"):
        dataset(begins=[0, 1, 0, 0], initial_states=[5.0, 6.0])


# What comes in, what is kept.


def test_arrays_tensors_and_lists_give_the_same_dataset() -> None:
    plain = arrays()
    expected = Transitions.from_arrays(**plain)
    tensors: dict[str, Any] = {name: torch.as_tensor(array) for name, array in plain.items()}
    lists: dict[str, Any] = {name: array.tolist() for name, array in plain.items()}
    for given in (tensors, lists):
        data = Transitions.from_arrays(**given)
        for name in plain:
            assert torch.equal(getattr(data, name), getattr(expected, name)), name


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint16, np.uint64, np.bool_, ">f8"]
)
def test_every_kind_of_real_number_becomes_float64(dtype: Any) -> None:
    values = np.array([[0, 1], [1, 0], [1, 1], [0, 0]]).astype(dtype)
    data = dataset(states=values, actions=values, rewards=values[:, 0])
    for column in (data.states, data.actions, data.rewards[:, None]):
        assert column.dtype == torch.float64
        assert column.tolist() == values.astype(float)[:, : column.shape[1]].tolist()


@pytest.mark.parametrize("convert", [lambda x: x, torch.as_tensor])
def test_what_happens_to_an_array_later_does_not_reach_the_dataset(convert: Any) -> None:
    given = {name: convert(array) for name, array in arrays().items()}
    data = Transitions.from_arrays(**given, initial_states=given["states"])
    for array in given.values():
        array[:] = math.nan
    for name in given:
        assert bool(getattr(data, name).isfinite().all()), name
    assert bool(data.starts.isfinite().all())


def test_taking_rows_keeps_their_order_and_everything_they_carry() -> None:
    data = dataset(
        terminated=[1, 0, 0, 0],
        truncated=[0, 0, 0, 1],
        episodes=[3, 4, 4, 5],
        angles=["s0"],
        initial_states=[[5.0, 6.0]],
    )
    taken = data.take(torch.tensor([3, 0]))
    for name in ("states", "actions", "rewards", "next_states"):
        assert torch.equal(getattr(taken, name), getattr(data, name)[[3, 0]]), name
    assert taken.terminated.tolist() == [False, True]
    assert taken.truncated.tolist() == [True, False]
    assert taken.episodes is not None
    assert taken.episodes.tolist() == [5, 3]
    assert taken.schema == data.schema
    assert taken.starts.tolist() == [[5.0, 6.0]]


# What is shown.


def test_the_repr_tells_sizes_ends_ranges_and_angles() -> None:
    data = Transitions.from_arrays(
        [[0.0, 7.0], [3.5, 7.0], [1.0, 7.0]],
        [[-2.0], [2.0], [0.5]],
        [-1.0, -1.0, 0.0],
        [[3.5, 7.0], [1.0, 7.0], [0.0, 7.0]],
        terminated=[False, False, True],
        truncated=[False, True, False],
        episodes=[0, 0, 1],
        state_names=["angle", "load"],
        action_names=["torque"],
        angles=["angle"],
    )
    assert repr(data) == (
        "Transitions(3 rows: 2 state columns, 1 action column; 1 terminated, 1 truncated, 2 episodes;\n"
        "  angle ∈ [0, 3.5] (angle), load ∈ [7, 7], torque ∈ [-2, 2], reward ∈ [-1, 0])"
    )


# Numbers that floats cannot compute with.


def scaled(**changes: Any) -> Transitions:
    given = {name: values * changes.pop(name, 1.0) for name, values in arrays(rows=6).items()}
    return Transitions.from_arrays(**given, **changes)


@pytest.mark.parametrize("size", [1e80, 1e307])
@pytest.mark.parametrize(
    ("role", "label"),
    [("states", "'s0'"), ("next_states", "'s0'"), ("actions", "'a0'"), ("rewards", "the reward")],
)
def test_numbers_that_cannot_be_squared_are_refused(role: str, label: str, size: float) -> None:
    with pytest.raises(DataError, match=rf"^{label} reaches .*e\+(79|80|306|307); .*larger unit"):
        scaled(**{role: size})


@pytest.mark.parametrize(
    ("role", "label"), [("states", "'s0'"), ("next_states", "'s0'"), ("actions", "'a0'")]
)
def test_columns_whose_squares_vanish_are_refused(role: str, label: str) -> None:
    with pytest.raises(DataError, match=rf"^{label} varies by .*e-(199|200) only; .*smaller unit"):
        scaled(**{role: 1e-200})
    assert scaled(**{role: 1e-60, "rewards": 1e-200})
    assert scaled(**{role: 0.0})


@pytest.mark.parametrize(("size", "period"), [(1e17, 2 * np.pi), (1.0, 1e-70), (1e300, 1e299)])
def test_an_angle_without_a_direction_is_refused(size: float, period: float) -> None:
    with pytest.raises(DataError, match=r"the angle 's0' reaches .* period of .*modulo|'s0' reaches"):
        scaled(states=size, angles={"s0": period})


def test_an_angle_of_many_turns_keeps_its_direction() -> None:
    assert scaled(states=1e12, next_states=1e12, angles={"s0": 360.0}).schema.angles == {"s0": 360.0}
