import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg.data import Transitions
from nopg.kernels import GaussianKernel
from nopg.models._state_support import StateSupport, node_spacing

UNIT = GaussianKernel(torch.ones(1, dtype=torch.float64))


def column(*rows: float) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[:, None]


def chain(
    states: torch.Tensor, *, last_ends: bool = False, episodes: torch.Tensor | None = None
) -> Transitions:
    """Return steps of 1 to the right."""
    n = len(states)
    terminated = (torch.arange(n) == n - 1) & last_ends
    return Transitions.from_arrays(
        states, torch.zeros(n, 1), torch.zeros(n), states + 1.0, terminated=terminated, episodes=episodes
    )


def normal(seed: int, rows: int, columns: int = 1) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(rows, columns)))


# Spacing


def test_the_spacing_is_the_median_distance_to_the_second_nearest_on_a_line() -> None:
    # Next states 0, 1, 3, 7: the second nearest others are 3, 2, 3 and 6 away. The median of an even number
    # of distances is the lower of the two in the middle.
    data = chain(column(-1.0, 0.0, 2.0, 6.0))
    assert node_spacing(data, UNIT) == pytest.approx(3.0)


def test_the_spacing_of_a_grid_is_that_of_its_lines() -> None:
    x = torch.arange(9, dtype=torch.float64)
    data = chain(torch.cartesian_prod(x, x))
    # Of 2² nearest others in the plane, on a grid, all are one line away.
    assert node_spacing(data, GaussianKernel(torch.ones(2, dtype=torch.float64))) == pytest.approx(1.0)
    assert node_spacing(data, GaussianKernel(torch.full((2,), 0.5, dtype=torch.float64))) == pytest.approx(
        2.0
    )


@pytest.mark.parametrize("states", [column(3.0), column(3.0, 3.0, 3.0, 3.0)])
def test_nodes_in_one_place_are_one_bandwidth_apart(states: torch.Tensor) -> None:
    assert node_spacing(chain(states), UNIT) == 1.0


# Support


def test_the_support_by_hand_counts_where_steps_began_and_where_the_task_ended() -> None:
    states = column(-1.0, 0.0, 2.0, 6.0)
    place = column(0.5)
    # w is half of a spacing of 3.
    began = sum(math.exp(-0.5 * ((s - 0.5) / 1.5) ** 2) for s in (-1.0, 0.0, 2.0, 6.0))
    ended = math.exp(-0.5 * ((7.0 - 0.5) / 1.5) ** 2)
    support = StateSupport(chain(states), UNIT)
    assert support.width == pytest.approx(1.5)
    assert support.log_mass(place).exp().tolist() == pytest.approx([began])
    with_end = StateSupport(chain(states, last_ends=True), UNIT)
    assert with_end.log_mass(place).exp().tolist() == pytest.approx([began + ended])


def test_a_row_that_stands_for_several_supports_as_often_where_it_began_and_where_it_ended() -> None:
    states, counts = column(-1.0, 0.0, 2.0, 6.0), torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)
    data = chain(states, last_ends=True)
    began = [math.exp(-0.5 * ((s - 0.5) / 1.5) ** 2) for s in (-1.0, 0.0, 2.0, 6.0)]
    ended = math.exp(-0.5 * ((7.0 - 0.5) / 1.5) ** 2)
    expected = began[0] + 3.0 * began[1] + 0.5 * began[2] + 2.0 * (began[3] + ended)
    weighted = StateSupport(replace(data, weights=counts), UNIT)
    assert weighted.log_mass(column(0.5)).exp().tolist() == pytest.approx([expected])


def test_the_prior_mass_counts_transitions() -> None:
    data = chain(torch.arange(100, dtype=torch.float64)[:, None])
    thrice = replace(data, weights=torch.full((100,), 3.0, dtype=torch.float64))
    once = StateSupport(data, UNIT).prior_mass(data)
    assert StateSupport(thrice, UNIT).prior_mass(thrice) == pytest.approx(3 * once, rel=1e-12)


def test_the_known_share_is_support_over_support_plus_prior_mass() -> None:
    support, place = StateSupport(chain(column(-1.0, 0.0, 2.0, 6.0)), UNIT), column(0.5, 4.0)
    S = support.log_mass(place).exp()
    known, unknown = support.split(place, 0.3)
    torch.testing.assert_close(known, S / (0.3 + S))
    torch.testing.assert_close(unknown, 0.3 / (0.3 + S))
    known, unknown = support.split(place, 0.0)
    assert (known.tolist(), unknown.tolist()) == ([1.0, 1.0], [0.0, 0.0])


def test_the_nearest_state_that_was_seen_may_be_the_end_of_the_task() -> None:
    support = StateSupport(chain(column(-1.0, 0.0, 2.0, 6.0), last_ends=True), UNIT)
    assert support.nearest(column(-5.0, 0.9, 100.0)).tolist() == [[-1.0], [0.0], [7.0]]
    support = StateSupport(chain(column(-1.0, 0.0, 2.0, 6.0)), UNIT)
    assert support.nearest(column(100.0)).tolist() == [[6.0]]


def test_angles_are_near_across_their_seam() -> None:
    states = column(179.0, 90.0, 0.0, -90.0)
    data = Transitions.from_arrays(states, torch.zeros(4, 1), torch.zeros(4), states, angles={"s0": 360.0})
    support = StateSupport(data, GaussianKernel(torch.ones(2, dtype=torch.float64)))
    assert support.nearest(data.schema.encode(column(-179.0))).tolist() == [[179.0]]


@given(seed=st.integers(0, 10**6), beta=st.sampled_from([1e-9, 1e-3, 1.0, 1e3]), distance=st.floats(0.0, 1e6))
@settings(max_examples=60, deadline=None)
def test_shares_sum_to_one_and_nothing_is_ever_wholly_unknown(
    seed: int, beta: float, distance: float
) -> None:
    support = StateSupport(chain(normal(seed, 30, 2)), GaussianKernel(torch.ones(2, dtype=torch.float64)))
    directions = torch.nn.functional.normalize(normal(seed + 1, 5, 2))
    known, unknown = support.split(distance * directions, beta)
    torch.testing.assert_close(known + unknown, torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-15)
    # 10⁻⁶/(1 + 10⁻⁶).
    assert float(known.min()) >= 1e-6 * (1 - 2e-6)
    assert float(unknown.min()) >= 0.0


def test_the_unknown_share_grows_along_a_way_out_of_the_data() -> None:
    support = StateSupport(chain(column(*np.linspace(-1, 1, 21))), UNIT)
    _, unknown = support.split(column(*np.linspace(1.0, 1.25, 6)), 1e-2)
    assert bool((unknown.diff() > 0).all())


# The rule


def test_the_prior_mass_of_an_even_chain_is_that_of_its_ends() -> None:
    # 0, 1, …, 99: the second nearest is 1 away, so w = ½ and a neighbour k away counts exp(−2k²). The two
    # ends have one on one side only and are the loneliest; the twentieth part lies among the inner ones.
    data = chain(torch.arange(100, dtype=torch.float64)[:, None])
    inner = 2 * sum(math.exp(-2.0 * k**2) for k in range(1, 20))
    assert StateSupport(data, UNIT).prior_mass(data) == pytest.approx(1e-4 * inner, rel=1e-6)


def test_a_row_is_not_supported_by_its_own_episode_or_its_duplicates() -> None:
    states = torch.arange(100, dtype=torch.float64)[:, None]
    data = chain(states)
    alone = StateSupport(data, UNIT).prior_mass(data)
    # Copies change the spacing, not who stands where: the width is taken from the single rows.
    twice = data.take(torch.arange(100).repeat(2))
    support = StateSupport(twice, UNIT)
    support.width = 0.5
    assert support.prior_mass(twice) == pytest.approx(2 * alone, rel=1e-6)

    # Neighbours in pairs of an episode: each is left with those of one side and the second on the other.
    pairs = chain(states, episodes=torch.arange(50).repeat_interleave(2))
    inner = 2 * sum(math.exp(-2.0 * k**2) for k in range(1, 20)) - math.exp(-2.0)
    assert StateSupport(pairs, UNIT).prior_mass(pairs) == pytest.approx(1e-4 * inner, rel=1e-6)


def test_a_state_as_lonely_as_the_loneliest_twentieth_is_unknown_to_one_part_in_ten_thousand() -> None:
    data = chain(normal(3, 400, 2))
    support = StateSupport(data, GaussianKernel(torch.ones(2, dtype=torch.float64)))
    beta = support.prior_mass(data)
    # A row supports itself by 1, which the rule leaves out; its support from others is what others see.
    S = support.log_mass(data.features).exp() - 1.0
    unknown = beta / (beta + S.clamp(min=1e-12))
    assert float((unknown > 1e-4).double().mean()) == pytest.approx(0.05, abs=0.005)


def test_a_single_row_has_the_least_prior_mass() -> None:
    data = chain(column(3.0))
    assert StateSupport(data, UNIT).prior_mass(data) == 1e-6


@pytest.mark.parametrize("rows", [10, 3_000])
def test_two_episodes_far_apart_have_the_least_prior_mass(rows: int) -> None:
    states = torch.cat([normal(4, rows), 1e6 + normal(5, rows)])
    data = chain(states, episodes=torch.arange(2).repeat_interleave(rows))
    assert StateSupport(data, UNIT).prior_mass(data) == 1e-6
