"""Simulated episodes and datasets from plants: what they record, when they stop, what a seed draws."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import (
    Environment,
    Pendulum,
    Trajectories,
    UniformAgent,
    collect,
    collect_grid,
    collect_uniform,
    simulate,
)
from nopg.errors import ArgumentError
from nopg.policies import GaussianPolicy, LinearPolicy


class Corridor(Environment):
    """Walk along a line, at most one unit a step and −1 a step, until position 3."""

    state_names = ("position",)
    action_names = ("stride",)
    state_low = torch.tensor([-5.0], dtype=torch.float64)
    state_high = torch.tensor([5.0], dtype=torch.float64)
    action_low = torch.tensor([-1.0], dtype=torch.float64)
    action_high = torch.tensor([1.0], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        return torch.zeros(num_states, 1, dtype=torch.float64)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return states + self.applied(actions)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        return -torch.ones(len(states), dtype=torch.float64)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        return next_states[:, 0] >= 3


def constant(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda states: torch.full((len(states), 1), value, dtype=torch.float64)


def swing(states: torch.Tensor) -> torch.Tensor:
    """Push with the velocity, harder than the motor can."""
    return 3 * torch.sign(states[:, 1:]) + states[:, :1].cos()


@pytest.fixture
def race() -> Trajectories:
    """Three walkers: one starts 2 from the end, one 6, one exactly 4."""
    return simulate(Corridor(), constant(1.0), steps=4, initial_states=[[1.0], [-3.0], [-1.0]])


def test_each_step_follows_the_environment() -> None:
    pendulum = Pendulum(start="random")
    run = simulate(pendulum, swing, steps=20, initial_states=pendulum.initial(4, rng=generator(3)))
    for t in range(20):
        assert torch.equal(run.states[t + 1], pendulum.step(run.states[t], run.actions[t]))
        assert torch.equal(run.rewards[t], pendulum.reward(run.states[t], run.actions[t], run.states[t + 1]))


def test_a_controller_cannot_rewrite_the_record() -> None:
    def vandal(states: torch.Tensor) -> torch.Tensor:
        states.zero_()
        return states[:, :1]

    run = simulate(Pendulum(), vandal, steps=2)
    assert run.states[0].tolist() == [[math.pi, 0.0]]


def test_an_episode_is_alive_up_to_and_including_its_terminating_step(race: Trajectories) -> None:
    assert race.alive.T.tolist() == [[True, True, False, False], [True] * 4, [True] * 4]
    assert race.terminated.T.tolist() == [
        [False, True, False, False],
        [False] * 4,
        [False, False, False, True],
    ]


def test_an_ended_episode_stands_still_and_earns_nothing(race: Trajectories) -> None:
    assert race.states[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert race.actions[:, 0, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert race.rewards[:, 0].tolist() == [-1.0, -1.0, 0.0, 0.0]


def test_discounted_returns_computed_by_hand(race: Trajectories) -> None:
    assert race.discounted_returns(0.5).tolist() == [-1.5, -1.875, -1.875]
    assert race.discounted_returns(0.0).tolist() == [-1.0] * 3
    assert race.discounted_returns(1.0).tolist() == race.returns.tolist()


def test_transitions_drop_the_steps_after_the_end_and_flag_ends_and_cuts(race: Trajectories) -> None:
    data = race.transitions(Corridor())
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 2 + [1] * 4 + [2] * 4
    assert data.states.flatten().tolist() == [1, 2, -3, -2, -1, 0, -1, 0, 1, 2]
    assert torch.equal(data.next_states, data.states + 1)
    assert data.rewards.tolist() == [-1.0] * 10
    # The third episode reaches its end with its last step: terminated, not truncated.
    assert data.terminated.nonzero().flatten().tolist() == [1, 9]
    assert data.truncated.nonzero().flatten().tolist() == [5]


def test_transitions_carry_names_angles_and_the_starts_of_the_task() -> None:
    upright = Pendulum(start="upright")
    run = simulate(upright, swing, steps=3, initial_states=[[0.0, 0.0], [0.1, 0.0]])
    data = run.transitions(upright)
    assert data.schema.states == ("angle", "velocity")
    assert data.schema.actions == ("torque",)
    assert dict(data.schema.angles) == {"angle": 2 * math.pi}
    assert data.starts.tolist() == [[0.0, 0.0], [0.1, 0.0]]
    assert simulate(upright, swing, steps=3).transitions(upright).start_kind == "rows"


def rounded(low: float, high: float) -> st.SearchStrategy[float]:
    """Draw numbers whose differences are no smaller than a millionth."""
    return st.floats(low, high).map(lambda x: round(x, 6))


@settings(deadline=None)
@given(
    starts=st.lists(rounded(-5.0, 2.5), min_size=1, max_size=5),
    stride=rounded(-1.5, 1.5),
    steps=st.integers(1, 8),
)
def test_every_episode_ends_exactly_once_in_the_data(starts: list[float], stride: float, steps: int) -> None:
    run = simulate(Corridor(), constant(stride), steps=steps, initial_states=[[x] for x in starts])
    data = run.transitions(Corridor())
    assert data.episodes is not None

    assert len(data) == int(run.alive.sum())
    ends = data.terminated | data.truncated
    assert data.episodes[ends].tolist() == list(range(len(starts)))
    # An episode's end is its last row, and its rewards add up to its return.
    assert ends[torch.cat([data.episodes.diff() > 0, torch.tensor([True])])].all()
    totals = torch.zeros(len(starts), dtype=torch.float64).index_add(0, data.episodes, data.rewards)
    assert torch.equal(totals, run.returns)


# Requests that cannot be met.


def run(controller: Any = swing, **changes: Any) -> Trajectories:
    return simulate(Pendulum(), controller, **({"steps": 2} | changes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(steps=0), "steps"),
        (lambda: simulate(Pendulum(start="random"), swing, steps=2), "pass rng"),
        (lambda: run(initial_states=[0.0, 0.0]), r"shape \(2,\)"),
        (lambda: run(initial_states=[[math.nan, 0.0]]), "finite numbers"),
        (
            lambda: run(lambda states: states[:, 0], initial_states=[[0.0, 0.0]] * 3),
            r"shape \(3,\) at step 0; return \(3, 1\)",
        ),
        (lambda: run(lambda states: states[:, :1] / 0.0 * 0.0), "NaN or infinities at step 0"),
        (lambda: run().discounted_returns(1.1), "discount"),
        (lambda: run().discounted_returns(math.nan), "discount"),
        (lambda: collect(Pendulum(), swing, episodes=0, steps=1, seed=0), "episodes"),
        (lambda: collect_grid(Pendulum(), (10, 10)), "give 3, for angle, velocity, torque"),
        (lambda: collect_grid(Pendulum(), (10, 10, 1)), "at least 2"),
        (lambda: collect_uniform(Pendulum(), 0, seed=0), "num_transitions"),
        (lambda: UniformAgent(low=(1.0,), high=(-1.0,)), "low is"),
        (lambda: UniformAgent(low=(0.0,), high=(1.0, 2.0)), "low is"),
        (lambda: UniformAgent(low=(), high=()), "low is"),
        (lambda: UniformAgent(low=(-math.inf,), high=(1.0,)), "low is"),
    ],
)
def test_impossible_requests_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


# Datasets.


@pytest.fixture
def grid() -> Transitions:
    return collect_grid(Pendulum(), (3, 5, 2))


def test_a_grid_is_the_product_of_its_axes(grid: Transitions) -> None:
    axes = [(-math.pi, 0.0, math.pi), (-8.0, -4.0, 0.0, 4.0, 8.0), (-2.0, 2.0)]
    expected = torch.tensor(list(itertools.product(*axes)), dtype=torch.float64)
    torch.testing.assert_close(torch.cat([grid.states, grid.actions], dim=1), expected, rtol=0, atol=1e-15)
    assert grid.episodes is None
    assert not (grid.terminated | grid.truncated).any()
    assert dict(grid.schema.angles) == {"angle": 2 * math.pi}
    assert grid.starts.tolist() == [[math.pi, 0.0]]


def test_uniform_rows_fill_the_box_and_are_the_plants_own_transitions() -> None:
    pendulum, data = Pendulum(), collect_uniform(Pendulum(), 2000, seed=0)
    rows = torch.cat([data.states, data.actions], dim=1)
    high = torch.tensor([math.pi, 8.0, 2.0], dtype=torch.float64)
    assert (rows.abs() <= high).all()
    # Standard error of a mean of 2000 uniform draws: 0.013 of the half-width; four of them.
    assert (rows.mean(0).abs() <= 0.052 * high).all()
    assert (rows.amax(0) >= 0.99 * high).all()
    assert torch.equal(data.next_states, pendulum.step(data.states, data.actions))
    assert torch.equal(data.rewards, pendulum.reward(data.states, data.actions, data.next_states))


POLICY = GaussianPolicy(LinearPolicy(torch.zeros(1, 3, dtype=torch.float64)), 0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: collect_uniform(Pendulum(start="random"), 10, num_initial_states=5, seed=seed).starts,
        lambda seed: collect_uniform(Pendulum(), 10, seed=seed).states,
        lambda seed: collect(Pendulum(), UniformAgent(), episodes=2, steps=10, seed=seed).actions,
        lambda seed: collect(Pendulum(start="random"), swing, episodes=2, steps=10, seed=seed).states,
        lambda seed: collect(Pendulum(), POLICY, episodes=20, steps=20, seed=seed).actions,
    ],
)
def test_data_repeat_with_their_seed_and_leave_the_global_generator_alone(
    make: Callable[[int], torch.Tensor],
) -> None:
    before = torch.get_rng_state()
    first, again, other = (make(seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_collected_episodes_are_numbered_flagged_and_hold_clipped_actions() -> None:
    data = collect(Corridor(), constant(7.0), episodes=2, steps=2, seed=0)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 1, 1]
    assert data.truncated.tolist() == [False, True] * 2
    assert data.actions.unique().tolist() == [1.0]
    assert data.starts.tolist() == [[0.0], [0.0]]


def test_a_policy_acts_on_the_features_of_the_plant_and_draws_its_noise() -> None:
    gains = torch.tensor([[0.3, -0.5, 0.1]], dtype=torch.float64)
    data = collect(Pendulum(start="random"), LinearPolicy(gains), episodes=2, steps=5, seed=0)
    torch.testing.assert_close(data.actions, data.features @ gains.T, rtol=1e-14, atol=1e-15)
    drawn = collect(Pendulum(), POLICY, episodes=20, steps=20, seed=1).actions
    # Standard error of a deviation from 400 draws: .0035; four of them.
    assert drawn.std().item() == pytest.approx(0.1, abs=0.014)
