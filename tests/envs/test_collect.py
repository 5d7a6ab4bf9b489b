"""Datasets collected from an environment: how many rows, where they lie, what they carry."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import (
    CartPole,
    Environment,
    Pendulum,
    UniformAgent,
    collect,
    collect_grid,
    collect_uniform,
)
from nopg.errors import ArgumentError
from nopg.policies import GaussianPolicy, LinearPolicy
from studies.paper_data import PENDULUM_GRIDS, MixtureOfGaussians


@pytest.fixture
def grid() -> Transitions:
    return collect_grid(Pendulum(), (3, 5, 2))


def test_a_grid_is_the_product_of_its_axes(grid: Transitions) -> None:
    axes = [(-math.pi, 0.0, math.pi), (-8.0, -4.0, 0.0, 4.0, 8.0), (-2.0, 2.0)]
    expected = torch.tensor(list(itertools.product(*axes)), dtype=torch.float64)
    torch.testing.assert_close(torch.cat([grid.states, grid.actions], dim=1), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "collect", [lambda p: collect_grid(p, (4, 4, 3)), lambda p: collect_uniform(p, 48, seed=1)]
)
def test_rows_are_the_environments_own_transitions(collect: Callable[[Pendulum], Transitions]) -> None:
    pendulum = Pendulum()
    data = collect(pendulum)
    assert len(data) == 48
    assert torch.equal(data.next_states, pendulum.step(data.states, data.actions))
    assert torch.equal(data.rewards, pendulum.reward(data.states, data.actions, data.next_states))


@pytest.mark.parametrize("size", PENDULUM_GRIDS)
def test_each_paper_grid_has_its_number_of_distinct_rows_and_every_corner(size: int) -> None:
    data = collect_grid(Pendulum(), PENDULUM_GRIDS[size])
    rows = torch.cat([data.states, data.actions], dim=1)
    assert len(data) == size
    assert len(rows.unique(dim=0)) == size
    assert set(itertools.product((-math.pi, math.pi), (-8.0, 8.0), (-2.0, 2.0))) <= set(
        map(tuple, rows.tolist())
    )


def test_a_grid_carries_names_angles_and_the_start_of_the_task(grid: Transitions) -> None:
    assert grid.schema.states == ("angle", "velocity")
    assert grid.schema.actions == ("torque",)
    assert dict(grid.schema.angles) == {"angle": 2 * math.pi}
    assert grid.initial_states is not None
    assert grid.initial_states.tolist() == [[math.pi, 0.0]]


def test_a_random_start_needs_a_seed_and_then_repeats() -> None:
    pendulum = Pendulum(start="random")
    with pytest.raises(ArgumentError, match="seed"):
        collect_grid(pendulum, (2, 2, 2))

    first, again = (collect_grid(pendulum, (2, 2, 2), num_initial_states=5, seed=3) for _ in range(2))

    assert first.initial_states is not None
    assert again.initial_states is not None
    assert first.initial_states.shape == (5, 2)
    assert torch.equal(first.initial_states, again.initial_states)


def test_uniform_rows_fill_the_box_and_stay_in_it() -> None:
    data = collect_uniform(Pendulum(), 2000, seed=0)
    rows = torch.cat([data.states, data.actions], dim=1)
    high = torch.tensor([math.pi, 8.0, 2.0], dtype=torch.float64)

    assert (rows.abs() <= high).all()
    # Standard error of a mean of 2000 uniform draws: 0.013 of the half-width; four of them.
    assert (rows.mean(0).abs() <= 0.052 * high).all()
    assert (rows.amax(0) >= 0.99 * high).all()
    assert (rows.amin(0) <= -0.99 * high).all()


def test_uniform_rows_repeat_with_their_seed() -> None:
    first, again, other = (collect_uniform(Pendulum(), 10, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.states, other.states)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give 3, for angle, velocity, torque"):
        collect_grid(Pendulum(), (10, 10))
    with pytest.raises(ArgumentError, match="at least 2"):
        collect_grid(Pendulum(), (10, 10, 1))
    with pytest.raises(ArgumentError, match="num_transitions"):
        collect_uniform(Pendulum(), 0, seed=0)


# Episodes.


class Corridor(Environment):
    """Walk along a line, at most one unit a step, paid by the new position, until position 5."""

    state_names = ("position",)
    action_names = ("stride",)
    state_low = torch.tensor([-5.0], dtype=torch.float64)
    state_high = torch.tensor([5.0], dtype=torch.float64)
    action_low = torch.tensor([-1.0], dtype=torch.float64)
    action_high = torch.tensor([1.0], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        return torch.arange(num_states, dtype=torch.float64)[:, None]

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return states + self.applied(actions)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        return next_states[:, 0]

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        return next_states[:, 0] >= 5


def ahead(states: torch.Tensor) -> torch.Tensor:
    """Ask for more than the corridor allows."""
    return torch.full((len(states), 1), 7.0, dtype=torch.float64)


def test_episodes_are_numbered_and_flagged_and_lose_no_row() -> None:
    data = collect(Corridor(), ahead, episodes=3, steps=4, seed=0)
    assert data.episodes is not None
    # From 0, 1 and 2 it takes 5, 4 and 3 steps to the end: one is cut, two end.
    assert data.episodes.tolist() == [0] * 4 + [1] * 4 + [2] * 3
    assert data.truncated.nonzero().flatten().tolist() == [3]
    assert data.terminated.nonzero().flatten().tolist() == [7, 10]
    assert data.starts.tolist() == [[0.0], [1.0], [2.0]]


def test_the_collected_action_is_the_applied_one() -> None:
    assert collect(Corridor(), ahead, episodes=2, steps=2, seed=0).actions.unique().tolist() == [1.0]


@pytest.mark.parametrize("agent", [MixtureOfGaussians(), UniformAgent.within(Pendulum())])
def test_random_data_repeat_with_their_seed(agent: MixtureOfGaussians | UniformAgent) -> None:
    first, again, other = (
        collect(Pendulum(start="random"), agent, episodes=2, steps=10, seed=seed) for seed in (3, 3, 4)
    )
    for name in ("states", "actions", "rewards", "next_states"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))


def test_the_pendulum_data_of_the_paper_start_upright_and_hold_clipped_torques() -> None:
    pendulum = Pendulum(start="upright")
    data = collect(pendulum, MixtureOfGaussians(), episodes=5, steps=100, seed=0)
    assert len(data) == 500
    assert data.starts.tolist() == [[0.0, 0.0]] * 5
    assert data.actions.abs().max() == 2
    # Holding what the plant received: the same rows follow from the stored action.
    assert torch.equal(data.next_states, pendulum.step(data.states, data.actions))
    assert data.starting_at([math.pi, 0.0]).starts.tolist() == [[math.pi, 0.0]]


def test_the_cart_pole_data_of_the_paper_hold_uniform_volts_until_the_pole_has_fallen() -> None:
    cart = CartPole()
    data = collect(cart, UniformAgent(), episodes=8, steps=2000, seed=0)
    assert data.terminated.sum() == 8
    assert not data.truncated.any()
    assert data.actions.abs().max() <= 5
    assert torch.equal(cart.terminal(data.next_states), data.terminated)


def test_a_policy_acts_on_the_features_of_the_environment() -> None:
    gains = torch.tensor([[0.3, -0.5, 0.1]], dtype=torch.float64)
    policy = LinearPolicy(gains)
    data = collect(Pendulum(start="random"), policy, episodes=2, steps=5, seed=0)
    expected = data.features @ gains.T
    torch.testing.assert_close(data.actions, expected, rtol=1e-14, atol=1e-15)


def test_a_stochastic_policy_draws_and_repeats_with_its_seed() -> None:
    policy = GaussianPolicy(LinearPolicy(torch.zeros(1, 3, dtype=torch.float64)), 0.1)
    first, again, other = (
        collect(Pendulum(), policy, episodes=20, steps=20, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.actions, other.actions)
    # Standard error of a deviation from 400 draws: .0035; four of them.
    assert first.actions.std().item() == pytest.approx(0.1, abs=0.014)


def test_impossible_episodes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="episodes"):
        collect(Corridor(), ahead, episodes=0, steps=1, seed=0)
    with pytest.raises(ArgumentError, match="steps"):
        collect(Corridor(), ahead, episodes=1, steps=0, seed=0)


# Random agents.


@pytest.mark.parametrize("agent", [MixtureOfGaussians(), UniformAgent(low=(-1.0,), high=(1.0,))])
def test_an_agent_draws_by_its_generator_alone(agent: UniformAgent | MixtureOfGaussians) -> None:
    states, before = torch.zeros(50, 2, dtype=torch.float64), torch.get_rng_state()
    one, same, other = (
        torch.as_tensor(agent.controller(generator(seed))(states + seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_each_action_of_a_uniform_agent_has_its_own_bounds() -> None:
    agent = UniformAgent(low=(-1.0, 10.0), high=(1.0, 11.0))
    a = torch.as_tensor(agent.controller(generator(0))(torch.zeros(4000, 2)))
    assert a.amin(0).tolist() == pytest.approx([-1, 10], abs=0.01)
    assert a.amax(0).tolist() == pytest.approx([1, 11], abs=0.01)
    # Standard error of a deviation from 4000 uniform draws: .0057 of 2/√12; four of them.
    assert a[:, 0].std().item() == pytest.approx(2 / math.sqrt(12), abs=0.023)


def test_a_mixture_has_the_moments_of_a_mixture() -> None:
    agent = MixtureOfGaussians(means=((-1.0,), (3.0,)), standard_deviations=((0.5,), (1.0,)), weights=(3, 1))
    a = torch.as_tensor(agent.controller(generator(0))(torch.zeros(4000, 2)))
    # By hand: mean ¾·(−1) + ¼·3 = 0; second moment ¾·(1 + ¼) + ¼·(9 + 1) = 3.4375.
    assert a.mean().item() == pytest.approx(0.0, abs=4 * math.sqrt(3.4375 / 4000))
    assert (a**2).mean().item() == pytest.approx(3.4375, rel=0.12)


@pytest.mark.parametrize(
    ("low", "high"),
    [((1.0,), (-1.0,)), ((0.0,), (1.0, 2.0)), ((), ()), ((-math.inf,), (1.0,)), ((math.nan,), (1.0,))],
)
def test_an_impossible_box_is_refused(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="low is"):
        UniformAgent(low=low, high=high)
