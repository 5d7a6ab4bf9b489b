"""Methods of d3rlpy: all transitions, finite actions in bounds, the same seed the same controller."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from data.io_cases import grid, walks
from nopg._seeding import generator
from nopg.baselines import baseline
from nopg.baselines._d3rlpy import to_d3rlpy
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_uniform, simulate
from nopg.errors import ArgumentError, DataError

METHODS = ("td3bc", "iql", "cql")
UNCONNECTED = collect_uniform(Pendulum(), 64, seed=0)
STATES = collect_uniform(Pendulum(), 20, seed=1).states


def picked(data: Transitions) -> list[Any]:
    """Return every transition that d3rlpy can draw, after comparing all of them with the log."""
    buffer = to_d3rlpy(data)
    found = [buffer.transition_picker(*buffer.buffer[k]) for k in range(buffer.transition_count)]
    assert len(found) == len(data)
    for row, one in enumerate(found):
        # d3rlpy computes in float32.
        assert np.array_equal(one.observation, data.features[row].float().numpy())
        assert np.array_equal(one.action, data.actions[row].float().numpy())
        assert np.array_equal(one.reward, data.rewards[row : row + 1].float().numpy())
        assert one.terminal == float(data.terminated[row])
        if not data.terminated[row]:
            assert np.array_equal(one.next_observation, data.next_features[row].float().numpy())
    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid().take(torch.arange(2, 50)),  # float32 has no 10³⁰⁰
        lambda: walks().take(torch.tensor([0, 2, 3, 4, 6, 8, 7, 11])),
        lambda: UNCONNECTED,
    ],
    ids=["unconnected", "with holes", "with angles"],
)
def test_n_transitions_stay_n_in_what_d3rlpy_samples_from(make: Callable[[], Transitions]) -> None:
    picked(make())


def test_every_step_of_an_episode_stays_whichever_way_it_ends() -> None:
    data = walks()
    transitions = picked(data)
    assert to_d3rlpy(data).size() == 3
    # Inside an episode the next action is the one that was taken next.
    for row in (0, 1, 2, 4, 5, 7, 8, 9, 10):
        assert np.array_equal(transitions[row].next_action, data.actions[row + 1].float().numpy())
    # A truncated episode is bootstrapped, a terminated one is not.
    assert [k for k, transition in enumerate(transitions) if transition.terminal] == [3]


def short(method: str = "td3bc", data: Transitions = UNCONNECTED, **settings: Any) -> torch.Tensor:
    """Return the actions at some states after ten updates."""
    return torch.as_tensor(baseline(method, data, 0.9, **{"updates": 10, **settings})(STATES))


def test_a_controller_takes_raw_states_and_sees_no_turns() -> None:
    found = baseline("td3bc", UNCONNECTED, 0.9, updates=10)
    turned = STATES + torch.tensor([2 * torch.pi, 0.0])
    # A turn is rounded in float32.
    assert torch.allclose(found(turned), found(STATES), atol=1e-4)
    assert simulate(Pendulum(), found, steps=3).rewards.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_does_better_than_the_random_actions_it_saw(method: str) -> None:
    draws = 2 * torch.rand(500, 2, generator=generator(0, "draws"), dtype=torch.float64) - 1
    s, a = draws[:, :1], draws[:, 1:]
    data = Transitions.from_arrays(s, a, -(a - s).square()[:, 0], s, terminated=torch.ones(500))
    chosen = baseline(method, data, 0.9, updates=100, hidden_units=(50,))(data.states)
    assert -(chosen - data.states).square().mean() > data.rewards.mean()


def test_the_global_generators_are_given_back_as_they_were() -> None:
    legacy = np.random.get_state()  # noqa: NPY002
    before = random.getstate(), torch.get_rng_state()
    short()
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(legacy[1], after[1])  # type: ignore[index]
    assert legacy[2] == after[2]  # type: ignore[index] # how many numbers of these have been drawn
    assert before[0] == random.getstate()
    assert torch.equal(before[1], torch.get_rng_state())


def test_settings_out_of_range_and_actions_without_a_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give a positive number"):
        short(updates=0)
    with pytest.raises(ArgumentError, match=r"discount is 1.0"):
        baseline("td3bc", UNCONNECTED, 1.0)
    with pytest.raises(DataError, match="d3rlpy needs low < high"):
        short(data=replace(UNCONNECTED, actions=torch.zeros_like(UNCONNECTED.actions)))
