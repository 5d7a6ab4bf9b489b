"""d3rlpy's dataset: as many transitions as were given, each with its own next state and end."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from data.io_cases import grid, walks
from nopg.baselines._replay_buffer import to_d3rlpy
from nopg.data import Transitions


def picked(buffer: Any) -> list[Any]:
    """Every transition the buffer can sample."""
    return [buffer.transition_picker(*buffer.buffer[k]) for k in range(buffer.transition_count)]


def assert_carried(data: Transitions) -> list[Any]:
    transitions = picked(to_d3rlpy(data))
    assert len(transitions) == len(data)
    for row, transition in enumerate(transitions):
        # d3rlpy computes in float32.
        assert np.array_equal(transition.observation, data.states[row].float().numpy())
        assert np.array_equal(transition.action, data.actions[row].float().numpy())
        assert np.array_equal(transition.reward, data.rewards[row : row + 1].float().numpy())
        assert transition.terminal == float(data.terminated[row])
        if not data.terminated[row]:
            assert np.array_equal(transition.next_observation, data.next_states[row].float().numpy())
    return transitions


def test_fifty_unconnected_transitions_stay_fifty() -> None:
    small = grid()  # float32 has no 10³⁰⁰
    rows = torch.arange(2, 52) % 50
    rows[-2:] = 2
    assert len(assert_carried(small.take(rows))) == 50


def test_every_step_of_an_episode_stays_whichever_way_it_ends() -> None:
    data = walks()
    transitions = assert_carried(data)
    assert to_d3rlpy(data).size() == 3
    # Inside an episode the next action is the one that was taken next.
    for row in (0, 1, 2, 4, 5, 7, 8, 9, 10):
        assert np.array_equal(transitions[row].next_action, data.actions[row + 1].float().numpy())


def test_episodes_with_holes_lose_nothing() -> None:
    assert_carried(walks().take(torch.tensor([0, 2, 3, 4, 6, 8, 7, 11])))


def test_a_truncated_episode_is_bootstrapped_and_a_terminated_one_is_not() -> None:
    transitions = picked(to_d3rlpy(walks()))
    assert [k for k, transition in enumerate(transitions) if transition.terminal] == [3]


def test_mini_batches_can_be_drawn() -> None:
    batch = to_d3rlpy(walks()).sample_transition_batch(8)
    assert batch.observations.shape == (8, 2)
    assert batch.actions.shape == (8, 1)


def test_angles_are_encoded_on_request() -> None:
    data = Transitions.from_arrays([[math.pi, 2.0]], [0.0], [0.0], [[0.0, 2.0]], angles=[0])
    (transition,) = picked(to_d3rlpy(data, encode_angles=True))
    # cos π, sin π and the plain column, in float32.
    assert transition.observation.tolist() == pytest.approx([-1.0, 0.0, 2.0], abs=1e-6)
    assert transition.next_observation.tolist() == [1.0, 0.0, 2.0]
