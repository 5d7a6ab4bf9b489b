"""Set points by a stated reward, and starts at further ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.data import Transitions
from nopg.data._set_points import set_points, with_further_set_points


def log(goals: tuple[float, ...] = (1.0, 2.0), reward: str = "-(level - goal)**2") -> Transitions:
    """Two rows of each episode; the goal is held within it."""
    level = np.linspace(0.0, 1.0, 2 * len(goals))
    goal = np.repeat(goals, 2)
    states, after = np.stack([level, goal], axis=1), np.stack([level + 0.1, goal], axis=1)
    after[::2] = states[1::2]
    return Transitions.from_arrays(
        states,
        np.zeros(len(level)),
        np.zeros(len(level)),
        after,
        episodes=np.repeat(np.arange(len(goals)), 2),
        state_names=["level", "goal"],
        action_names=["valve"],
    ).with_reward(reward)


@pytest.mark.parametrize(
    ("reward", "found"),
    [
        ("-(level - goal)**2", {"level": "goal"}),
        ("-abs(goal - next(level)) - 0.1*valve**2", {"level": "goal"}),
        ("-log(abs(level - 3) + 0.01)", {"level": 3.0}),
        ("-(2*level - 2*goal)**2", {"level": "goal"}),
        ("-(2*level - goal)**2", {}),
        ("-level", {}),
    ],
)
def test_set_points_are_what_an_output_is_compared_with(reward: str, found: dict[str, str | float]) -> None:
    assert set_points(log(reward=reward)) == found


def test_starts_keep_their_states_at_further_set_points_within_the_logged_range() -> None:
    varied = with_further_set_points(log())
    assert varied is not None
    levels, goals = varied.starts.T
    assert set(levels.tolist()) == set(log().starts[:, 0].tolist())
    assert len(goals.unique()) > 20
    assert (float(goals.min()), float(goals.max())) == (1.0, 2.0)


def test_what_is_derived_from_a_set_point_follows_it() -> None:
    derived = log().derive(formulas={"error": ("goal - level", "next(goal) - next(level)")})
    varied = with_further_set_points(derived)
    assert varied is not None
    level, goal, error = varied.starts.T
    assert torch.allclose(error, goal - level, atol=1e-12)


def test_a_single_set_point_and_declared_starts_are_left_as_they_are() -> None:
    assert with_further_set_points(log(goals=(1.0,))) is None
    assert with_further_set_points(log().starting_at([[0.0, 1.0]])) is None
    assert with_further_set_points(log(reward="-level**2")) is None
