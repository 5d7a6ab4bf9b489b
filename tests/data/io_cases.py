"""Datasets that are hard to carry, and how to tell that one came through whole."""

import math

import numpy as np
import torch

from nopg.data import Transitions

PARTS = ("states", "actions", "rewards", "next_states", "terminated", "truncated")


def grid() -> Transitions:
    """Fifty unconnected single experiments, some of them terminal, with awkward floats."""
    rng = np.random.default_rng(0)
    states, next_states = rng.normal(size=(2, 50, 2))
    states[0], next_states[1] = (-0.0, 5e-324), (0.1 + 0.2, 7e74)
    return Transitions.from_arrays(
        states,
        rng.normal(size=(50, 1)) / 3,
        rng.normal(size=50),
        next_states,
        terminated=np.arange(50) % 7 == 0,
        state_names=["angle", "speed"],
        action_names=["torque"],
        angles=["angle"],
        units={"speed": "rad/s", "reward": "€"},
        bounds={"torque": (-2.0, 2.0)},
        initial_states=[[math.pi, 0.1]],
    )


def walks() -> Transitions:
    """Three walks of 4, 3 and 5 steps: terminated, truncated, and cut off without a flag."""
    rng = np.random.default_rng(1)
    lengths, numbers = (4, 3, 5), (7, -2, 2**53 + 1)
    paths = [rng.normal(size=(length + 1, 2)) for length in lengths]
    return Transitions.from_arrays(
        np.concatenate([path[:-1] for path in paths]),
        rng.normal(size=(12, 1)),
        rng.normal(size=12),
        np.concatenate([path[1:] for path in paths]),
        terminated=np.arange(12) == 3,
        truncated=np.arange(12) == 6,
        episodes=np.repeat(numbers, lengths),
        state_names=["x", "y"],
        action_names=["u"],
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int64) if tensor.dtype == torch.float64 else tensor


def assert_same(data: Transitions, expected: Transitions, *, whole_schema: bool = True) -> None:
    """Equal to the bit, episodes and their numbers included."""
    for name in PARTS:
        assert torch.equal(bits(getattr(data, name)), bits(getattr(expected, name))), name
    assert (data.episodes is None) == (expected.episodes is None)
    assert (data.begins is None) == (expected.begins is None)
    if data.episodes is not None and expected.episodes is not None:
        assert torch.equal(data.episodes, expected.episodes)
    if whole_schema:
        assert data.schema == expected.schema
        assert torch.equal(bits(data.starts), bits(expected.starts))
