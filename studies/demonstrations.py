"""Drives on the mountain car: synthetic ones, and those of a person from a CSV file of its own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import MountainCar
from nopg.errors import ArgumentError, DataError

DEMONSTRATIONS = "NOPG_DEMONSTRATIONS"
"""Environment variable with the path of recorded drives."""

# Columns of a file: those of our example, or of the authors'.
_COLUMNS = (
    ("episode", "position", "velocity", "throttle", "next_position", "next_velocity"),
    ("traj", "pos", "vel", "action", "next_pos", "next_vel"),
)


def synthetic_demonstrations() -> Transitions:
    """Return the ten drives of the example, made by a scripted operator; all reach the goal."""
    return read_demonstrations(Path(__file__).parents[1] / "examples/mountain-car.csv")


def recorded_demonstrations() -> Transitions:
    """Return the drives of the file that the environment variable names."""
    path = os.environ.get(DEMONSTRATIONS)
    if not path:
        raise ArgumentError(
            f"the mountain car needs the recorded drives, got no path; give --demonstrations or set "
            f"{DEMONSTRATIONS}"
        )
    return read_demonstrations(path)


def some_of(demonstrations: Transitions, number: int, seed: int) -> Transitions:
    """Return this number of drives, drawn without repetition; their starts are those of the task."""
    assert demonstrations.episodes is not None
    known = torch.unique(demonstrations.episodes)
    if not 1 <= number <= len(known):
        raise ArgumentError(f"there are {len(known)} demonstrations; {number} cannot be drawn from them")
    drawn = known[torch.randperm(len(known), generator=generator(seed, "demonstrations"))[:number]]
    return replace(demonstrations.take(torch.isin(demonstrations.episodes, drawn)), initial_states=None)


def read_demonstrations(path: str | Path) -> Transitions:
    """Return recorded drives, −1 per step whatever reward they were recorded with.

    The file has a line of names, then one row per step, drive after drive. A drive that reached the goal is
    terminated there, any other one only stopped being recorded.
    """
    try:
        table: Any = np.genfromtxt(path, delimiter=",", names=True, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read demonstrations from {path}: {error}") from None
    have = table.dtype.names or ()
    names = next((some for some in _COLUMNS if set(some) <= set(have)), None)
    if names is None:
        raise DataError(f"{path} has the columns {list(have)}; give {' or '.join(map(str, _COLUMNS))}")
    drive, position, velocity, throttle, then_position, then_velocity = (table[name] for name in names)
    car, last = MountainCar(), np.append(np.diff(drive) != 0, True)
    arrived = (then_position >= car.goal_position) & (then_velocity >= car.goal_velocity)
    return Transitions.from_arrays(
        np.stack([position, velocity], axis=1),
        throttle.clip(-1.0, 1.0),
        -np.ones(len(last)),
        np.stack([then_position, then_velocity], axis=1),
        terminated=arrived,
        truncated=last & ~arrived,
        episodes=drive.astype(np.int64),
        state_names=MountainCar.state_names,
        action_names=MountainCar.action_names,
    )
