import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.data import Transitions
from nopg.graph import FitShape, LocalLinear
from nopg.graph._cover import uncovered
from nopg.graph._state_support import node_spacing
from nopg.kernels import GaussianKernel


def points(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def scattered(seed: int, rows: int, columns: int = 2, scale: float = 1.0) -> torch.Tensor:
    return torch.as_tensor(scale * np.random.default_rng(seed).normal(size=(rows, columns)))


def in_order(places: torch.Tensor) -> list[list[float]]:
    return sorted(places.round(decimals=6).tolist())


def test_of_places_by_hand_those_that_no_node_covers_are_found_once_for_each_cell() -> None:
    nodes = points([-1.0, 0.0], [1.0, 0.0])  # of mean 0
    places = points([1.5, 0.0], [2.4, 0.0], [2.2, 0.0], [2.3, 0.0], [0.0, 3.0], [0.0, -3.0], [0.0, -0.3])
    # The first and the last are near a node; 2.3 is the middle of three in a cell.
    assert sorted(uncovered(places, nodes, radius=1.1, most=9).tolist()) == [3, 4, 5]


def test_of_two_in_a_cell_the_one_farther_from_the_nodes_is_taken_whatever_their_order() -> None:
    nodes, places = points([0.0]), points([3.0], [3.3])
    assert uncovered(places, nodes, radius=1.0, most=9).tolist() == [1]
    assert uncovered(places.flip(0), nodes, radius=1.0, most=9).tolist() == [0]


def test_nothing_is_uncovered_where_nodes_are_dense() -> None:
    nodes = scattered(0, 50)
    assert uncovered(nodes + 0.01, nodes, radius=0.1, most=50).tolist() == []


@given(seed=st.integers(0, 10**6), columns=st.integers(1, 4), most=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_far_from_all_nodes_and_no_more_than_asked_for(
    seed: int, columns: int, most: int
) -> None:
    nodes, places = scattered(seed, 20, columns), scattered(seed + 1, 100, columns, 4.0)
    radius = 0.8
    found = uncovered(places, nodes, radius=radius, most=most)
    assert len(found) <= most
    assert len(found.unique()) == len(found)
    gaps = torch.cdist(places, nodes).amin(dim=1)
    assert bool((gaps[found] > radius).all())


def test_every_place_is_within_a_cell_of_a_node_or_of_one_that_was_found() -> None:
    nodes, places = scattered(1, 30), scattered(2, 200, scale=3.0)
    found = uncovered(places, nodes, radius=0.5, most=200)
    gaps = torch.cdist(places, torch.cat([nodes, places[found]])).amin(dim=1)
    # The diagonal of a cell.
    assert float(gaps.max()) <= 0.5 * 2**0.5


@pytest.mark.parametrize("seed", range(5))
def test_neither_the_order_nor_shifts_nor_units_of_the_places_matter(seed: int) -> None:
    nodes, places = scattered(seed, 30), scattered(seed + 9, 80, scale=3.0)
    found = in_order(places[uncovered(places, nodes, radius=0.7, most=80)])
    mixed = torch.as_tensor(np.random.default_rng(seed).permutation(80))
    turned = places[mixed]
    assert in_order(turned[uncovered(turned, nodes.flip(0), radius=0.7, most=80)]) == found
    moved = uncovered(places + 10.0, nodes + 10.0, radius=0.7, most=80)
    assert in_order(places[moved]) == found
    scaled = uncovered(0.0123 * places, 0.0123 * nodes, radius=0.0123 * 0.7, most=80)
    assert in_order(places[scaled]) == found


# In the model


def jumps() -> Transitions:
    """Return steps of ±1 that begin at 0, give or take .1."""
    rng = np.random.default_rng(0)
    s, a = torch.as_tensor(0.1 * rng.normal(size=(40, 1))), torch.as_tensor(rng.uniform(-1, 1, (40, 1)))
    ends = torch.arange(40) < 5
    return Transitions.from_arrays(s, a, s[:, 0], s + a, terminated=ends)


def test_nodes_of_the_model_reach_as_far_as_one_more_step_leads() -> None:
    data, metric = jumps(), GaussianKernel(torch.ones(1, dtype=torch.float64))
    model = LocalLinear(data, metric, shape=FitShape(12, 1e-9))
    extra = model.node_features[40:, 0]
    # Samples end within ±1.2, and from there a step leads within ±2.2.
    assert float(data.next_states.abs().max()) < 1.3
    assert 1.8 < float(extra.abs().max()) < 2.5
    spacing = node_spacing(data, metric)
    assert float((extra[:, None] - data.next_states[:, 0]).abs().amin(dim=1).min()) > spacing
    assert len(extra) <= 40


def test_a_node_between_ends_and_others_ends_in_part() -> None:
    data, metric = jumps(), GaussianKernel(torch.ones(1, dtype=torch.float64))
    for terminated, lowest, highest in (
        (torch.zeros(40, dtype=torch.bool), 1.0, 1.0),
        (torch.ones(40, dtype=torch.bool), 0.0, 0.0),
        (data.next_states[:, 0] > 0.8, 0.0, 1.0),
    ):
        told = Transitions.from_arrays(
            data.states, data.actions, data.rewards, data.next_states, terminated=terminated
        )
        model = LocalLinear(told, metric, shape=FitShape(12))
        goes_on, place = model.continues[40:], model.node_features[40:, 0]
        assert model.continues[:40].tolist() == (~terminated).double().tolist()
        # Shares sum to 1 but for rounding.
        assert float(goes_on.min()) == pytest.approx(lowest, abs=1e-12)
        assert float(goes_on.max()) == pytest.approx(highest, abs=1e-12)
        if lowest < highest:
            assert bool((goes_on[place > 1.5] < 1e-6).all())
            assert bool((goes_on[place < 0] > 1 - 1e-6).all())


def test_without_cover_the_nodes_are_the_next_states() -> None:
    data = jumps()
    model = LocalLinear(data, GaussianKernel(torch.ones(1, dtype=torch.float64)), cover=False)
    assert model.num_nodes == 40
    assert model.node_features.tolist() == data.next_states.tolist()
