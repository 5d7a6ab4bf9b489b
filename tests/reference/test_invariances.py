import pytest

from reference.problem_cases import invariances

CHANGES = [
    "row order",
    "reward times 7",
    "angle turned",
    "angle in degrees",
    "states shifted",
    "states in other units",
    "actions shifted",
    "actions in other units",
    "every row twice",
]


@pytest.fixture(scope="module")
def differences() -> dict[str, float]:
    return invariances()


def test_every_change_is_tried_on_random_data_and_on_a_grid(differences: dict[str, float]) -> None:
    places = ["random", "pendulum grid"]
    assert set(differences) == {f"{change}, {place}" for change in CHANGES for place in places}


@pytest.mark.parametrize("place", ["random", "pendulum grid"])
@pytest.mark.parametrize("change", CHANGES)
def test_return_values_and_gradient_do_not_depend_on_how_the_data_are_written(
    differences: dict[str, float], change: str, place: str
) -> None:
    # Rounding of coordinates of order 10, over bandwidths of .2, times the condition of Λ, up to 67.
    assert differences[f"{change}, {place}"] <= 1e-8
