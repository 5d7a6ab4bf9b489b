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

# Accepted names of each column.
_NAMES = {
    "episode": ("episode", "traj", "trajectory"),
    "position": ("position", "pos"),
    "velocity": ("velocity", "vel"),
    "throttle": ("throttle", "action"),
    "next_position": ("next_position", "next_pos"),
    "next_velocity": ("next_velocity", "next_vel"),
}


def synthetic_demonstrations() -> Transitions:
    """Return the ten drives of the tutorial, made by a scripted operator; all reach the goal."""
    return read_demonstrations(Path(__file__).parents[1] / "docs/tutorials/mountain-car.csv")


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
    columns = {}
    for column, names in _NAMES.items():
        found = [name for name in names if name in have]
        if not found:
            raise DataError(f"{path} has the columns {list(have)}; none of them is {' or '.join(names)}")
        columns[column] = np.atleast_1d(table[found[0]])

    car = MountainCar()
    last = np.append(np.diff(columns["episode"]) != 0, True)
    arrived = columns["next_position"] >= car.goal_position
    terminated = arrived & (columns["next_velocity"] >= car.goal_velocity)
    return Transitions.from_arrays(
        np.stack([columns["position"], columns["velocity"]], axis=1),
        columns["throttle"].clip(-1.0, 1.0),
        -np.ones(len(last)),
        np.stack([columns["next_position"], columns["next_velocity"]], axis=1),
        terminated=terminated,
        truncated=last & ~terminated,
        episodes=columns["episode"].astype(np.int64),
        state_names=MountainCar.state_names,
        action_names=MountainCar.action_names,
    )
