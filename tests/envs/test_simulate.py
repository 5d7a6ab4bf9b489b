"""Simulated episodes: what they record, when they stop, and which transitions they hold."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.envs import Environment, MountainCar, Pendulum, Trajectories, simulate
from nopg.errors import ArgumentError


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
    run = simulate(pendulum, swing, steps=20, num_episodes=4, rng=generator(3))
    for t in range(20):
        assert torch.equal(run.states[t + 1], pendulum.step(run.states[t], run.actions[t]))
        assert torch.equal(run.rewards[t], pendulum.reward(run.states[t], run.actions[t], run.states[t + 1]))


def test_the_stored_action_is_the_applied_one() -> None:
    run = simulate(Pendulum(), constant(5.0), steps=3)
    assert run.actions.flatten().tolist() == [2.0] * 3
    assert run.transitions(Pendulum()).actions.flatten().tolist() == [2.0] * 3


def test_a_network_controller_leaves_no_gradient() -> None:
    network = torch.nn.Linear(2, 1, dtype=torch.float64)
    run = simulate(Pendulum(), network, steps=2)
    assert not run.states.requires_grad
    assert not run.actions.requires_grad


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


def test_transitions_drop_the_steps_after_the_end_and_no_other(race: Trajectories) -> None:
    data = race.transitions(Corridor())
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 2 + [1] * 4 + [2] * 4
    assert data.states.flatten().tolist() == [1, 2, -3, -2, -1, 0, -1, 0, 1, 2]
    assert torch.equal(data.next_states, data.states + 1)
    assert data.rewards.tolist() == [-1.0] * 10


def test_only_a_terminal_state_is_terminated_and_only_a_cut_is_truncated(race: Trajectories) -> None:
    data = race.transitions(Corridor())
    # The third episode reaches its end with its last step: terminated, not truncated.
    assert data.terminated.nonzero().flatten().tolist() == [1, 9]
    assert data.truncated.nonzero().flatten().tolist() == [5]


def test_transitions_carry_names_angles_and_the_starts_of_the_task() -> None:
    upright = Pendulum(start="upright")
    run = simulate(upright, swing, steps=3, initial_states=[[0.0, 0.0], [0.1, 0.0]])

    data = run.transitions(upright, initial_states=Pendulum().initial(1))

    assert data.schema.states == ("angle", "velocity")
    assert data.schema.actions == ("torque",)
    assert dict(data.schema.angles) == {"angle": 2 * math.pi}
    assert data.starts.tolist() == [[math.pi, 0.0]]
    assert run.transitions(upright).starts.tolist() == [[0.0, 0.0], [0.1, 0.0]]
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


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="steps"):
        simulate(Pendulum(), swing, steps=0)
    with pytest.raises(ArgumentError, match="num_episodes"):
        simulate(Pendulum(), swing, steps=1, num_episodes=0)
    with pytest.raises(ArgumentError, match="leave num_episodes out"):
        simulate(Pendulum(), swing, steps=1, num_episodes=2, initial_states=[[0.0, 0.0]])
    with pytest.raises(ArgumentError, match=r"shape \(2,\)"):
        simulate(Pendulum(), swing, steps=1, initial_states=[0.0, 0.0])
    with pytest.raises(ArgumentError, match="finite numbers"):
        simulate(Pendulum(), swing, steps=1, initial_states=[[math.nan, 0.0]])


@pytest.mark.parametrize("discount", [-0.1, 1.1, math.nan])
def test_an_impossible_discount_is_refused(race: Trajectories, discount: float) -> None:
    with pytest.raises(ArgumentError, match="discount"):
        race.discounted_returns(discount)


def test_a_controller_that_loses_the_action_dimension_is_told_the_shape() -> None:
    with pytest.raises(ArgumentError, match=r"shape \(3,\) at step 0; return \(3, 1\)"):
        simulate(Pendulum(), lambda states: states[:, 0], steps=2, num_episodes=3)


def test_a_controller_that_returns_nan_is_told_the_step() -> None:
    with pytest.raises(ArgumentError, match="at step 1"):
        simulate(Corridor(), lambda states: torch.where(states > 0, math.nan, 1.0), steps=3)


def test_what_a_controller_says_about_an_ended_episode_is_ignored() -> None:
    run = simulate(Corridor(), lambda states: torch.where(states >= 3, math.nan, 1.0), steps=5)
    assert run.returns.tolist() == [-3.0]
    assert run.actions.isfinite().all()


def test_when_all_episodes_have_ended_the_controller_is_asked_no_more() -> None:
    car, asked = MountainCar(), 0

    def push(states: torch.Tensor) -> torch.Tensor:
        nonlocal asked
        asked += 1
        return torch.ones(len(states), 1, dtype=torch.float64)

    near_the_goal = torch.tensor([[0.40, 0.06], [0.30, 0.06]], dtype=torch.float64)
    runs = simulate(car, push, steps=100, initial_states=near_the_goal)
    assert asked == int(runs.alive.sum(dim=0).max()) < 10
    assert torch.equal(runs.states[-1], runs.states[asked])
    assert float(runs.rewards[asked:].abs().sum()) == 0.0
