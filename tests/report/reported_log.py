"""The log of a tank for tests of reports."""

from collections.abc import Mapping

import numpy as np

import nopg


def tank_log(name: str, units: Mapping[str, str] | None = None) -> nopg.Transitions:
    """Return twelve episodes of a tank whose level should stay at 1, under a random valve."""
    episodes, steps = 12, 10
    rng = np.random.default_rng(0)
    levels = rng.uniform(0.3, 1.5, episodes)
    rows = []
    for episode in range(episodes):
        level = levels[episode]
        for _ in range(steps):
            valve = rng.uniform()
            after = level + 0.3 * valve - 0.15 * np.sqrt(level)
            rows.append((level, valve, -((level - 1) ** 2), after, episode))
            level = after
    state, action, reward, next_state, episode_of = np.array(rows).T
    return nopg.Transitions.from_arrays(
        state,
        action,
        reward,
        next_state,
        episodes=episode_of.astype(int),
        state_names=[name],
        action_names=["valve"],
        units=units,
    )
