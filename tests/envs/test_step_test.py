"""A controller disturbed on purpose."""

import math

import pytest
import torch

from nopg._seeding import generator
from nopg.envs import StepTest, TwoTanks, collect, level_controller, simulate
from nopg.errors import ArgumentError


def zero(states: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(states), 2, dtype=torch.float64)


def disturbed(agent: StepTest, calls: int, episodes: int = 3) -> torch.Tensor:
    """Return what is asked for in so many calls, shape (calls, episodes, d_a)."""
    act = agent.controller(generator(0))
    states = torch.zeros(episodes, 3, dtype=torch.float64)
    return torch.stack([torch.as_tensor(act(states)) for _ in range(calls)])


def test_a_step_lasts_as_long_as_it_is_held_and_then_changes() -> None:
    steps = disturbed(StepTest(lambda: zero, size=1.0, hold=3), 7)
    assert torch.equal(steps[0], steps[1])
    assert torch.equal(steps[0], steps[2])
    assert not bool((steps[2] == steps[3]).any())
    assert torch.equal(steps[3], steps[5])
    assert not bool((steps[5] == steps[6]).any())


def test_every_episode_and_every_action_has_steps_of_its_own() -> None:
    step = disturbed(StepTest(lambda: zero, size=1.0), 1)
    assert len(step.unique()) == step.numel()


def test_steps_fill_their_range_and_stay_in_it() -> None:
    steps = disturbed(StepTest(lambda: zero, size=0.5), 100, episodes=100)
    # The extremes of 20 000 uniform draws miss the ends by about a ten-thousandth of the range.
    assert steps.min().item() == pytest.approx(-0.5, abs=1e-3)
    assert steps.max().item() == pytest.approx(0.5, abs=1e-3)
    # Standard error of the mean of 20 000: .29/141; four of them.
    assert steps.mean().item() == pytest.approx(0.0, abs=0.009)


def test_steps_of_no_size_leave_the_controller_as_it_is() -> None:
    tanks = TwoTanks()
    quiet = collect(tanks, StepTest(lambda: level_controller(tanks), size=0.0), episodes=3, steps=20, seed=1)
    starts = quiet.starts
    alone = simulate(tanks, level_controller(tanks), steps=20, initial_states=starts)
    assert torch.equal(quiet.actions.reshape(3, 20).T, alone.actions[..., 0])


def test_each_run_starts_with_a_fresh_memory_and_the_same_seed_repeats() -> None:
    tanks = TwoTanks()
    agent = StepTest(lambda: level_controller(tanks), size=1.0, hold=3)
    first, again = (collect(tanks, agent, episodes=3, steps=20, seed=1) for _ in range(2))
    other = collect(tanks, agent, episodes=3, steps=20, seed=2)
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.actions, other.actions)


@pytest.mark.parametrize("size", [-1.0, math.nan, math.inf])
def test_an_impossible_size_is_refused(size: float) -> None:
    with pytest.raises(ArgumentError, match="size"):
        StepTest(lambda: zero, size=size)


def test_an_impossible_hold_is_refused() -> None:
    with pytest.raises(ArgumentError, match="hold"):
        StepTest(lambda: zero, size=1.0, hold=0)
