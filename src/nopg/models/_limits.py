"""Limits of states, inputs and rewards, and the states that end a task, read from the log."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._typing import BoolArray, FloatArray
from nopg.data import Transitions
from nopg.models._regression_rows import InputSpace

Numbers = npt.NDArray[np.float64]

# Rewards exceed the highest logged one by at most this share of their range.
_REWARD_MARGIN = 0.05
# States of a rollout leave the logged range by at most this multiple of it.
_STATE_MARGIN = 1.0
# Share of the range of an input that counts as one radius beyond it, where nothing is known of the growth of
# errors there.
_MARGIN = 0.1
# The least growth of errors beyond the range of a state. Rollouts hold states one range beyond the log: there
# nothing may count as known, or a path that is held would.
_LEAST_OF_STATES = 0.1

# Of a period: an angle that exceeds its turn by less, as by rounding or a noisy sensor, is within it.
_ROUNDING = 1e-2


def state_bounds(data: Transitions) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest states (d_s, 1) of rollouts: declared, else a margin around the log."""
    schema = data.schema
    seen = torch.cat([data.states, data.next_states])
    low, high = seen.amin(dim=0), seen.amax(dim=0)
    margin = _STATE_MARGIN * (high - low)
    low, high = low - margin, high + margin
    for column, name in enumerate(schema.states):
        if name in schema.angles or name in schema.derived:
            low[column], high[column] = -math.inf, math.inf
        elif name in schema.exogenous:
            low[column], high[column] = seen[:, column].min(), seen[:, column].max()
        elif name in schema.bounds:
            low[column], high[column] = schema.bounds[name]
    return low[:, None].numpy(), high[:, None].numpy()


def logged_turns(data: Transitions) -> tuple[FloatArray, FloatArray]:
    """Return where the turn begins that an angle is logged in, and its period, (d_s, 1); period 0 of no turn.

    Rollouts stay in it, so that formulas of an angle mean the same there as in the log: from 0 if no value is
    negative, else from half a period below. An angle that the log counts on over turns is left as it is.
    """
    schema, seen = data.schema, torch.cat([data.states, data.next_states])
    start, period = torch.zeros(2, len(schema.states), 1, dtype=torch.float64).unbind()
    for column, name in enumerate(schema.states):
        if (turn := schema.angles.get(name)) is not None:
            low, high = seen[:, column].aminmax()
            first, slack = 0.0 if low >= 0.0 else -0.5 * turn, _ROUNDING * turn
            if first - slack <= low and high <= first + turn + slack:
                start[column], period[column] = first, turn
    return start.numpy(), period.numpy()


def in_turn(states: FloatArray, start: FloatArray, period: FloatArray) -> FloatArray:
    """Return states (d_s, m) with angles in their turn."""
    if not period.any():
        return states
    size = np.where(period > 0, period, 1.0)
    found: FloatArray = states - np.where(period > 0, size * np.floor((states - start) / size), 0.0)
    return found


def input_range(
    space: InputSpace, extremes: Tensor, growth: Tensor, past: BoolArray
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the logged minimum, maximum and margin (d,) of inputs, by the growth (d,) of errors beyond.

    An angle has no limits, nor has a state column that holds past values alone, `past` (d_s,): these were
    compared with their limits when they were present.
    """
    low, high = extremes
    is_state = torch.arange(len(growth)) < len(past)
    share = _MARGIN / torch.where(is_state, growth.clamp(min=_LEAST_OF_STATES), growth).sqrt()
    margin = torch.where(high > low, share * (high - low), space.units)
    free = space.periods > 0
    free[: len(past)] |= torch.as_tensor(past)
    low, high = torch.where(free, -math.inf, low), torch.where(free, math.inf, high)
    return low.numpy(), high.numpy(), margin.numpy()


def highest_reward(rewards: Tensor, spread: float) -> float:
    """Return an upper limit of the reward, from the rewards of distinct rows and the range of all.

    With the two highest r₁ ≥ r₂ it is the 95 % confidence limit r₁ + 19·(r₁ − r₂) of Robson and Whitlock
    (1964), at most a share of the range above r₁: a highest reward that several rows have is not exceeded.
    """
    if len(rewards) == 1:
        return float(rewards[0])
    first, second = (float(reward) for reward in rewards.topk(2).values)
    return first + min(19.0 * (first - second), _REWARD_MARGIN * spread)


def lowest_mean_reward(rewards: Tensor, episodes: Tensor | None, discount: float) -> float:
    """Return the lowest mean reward over an effective horizon, or over an episode that is shorter."""
    if episodes is None:
        return float(rewards.min())
    window, lowest = max(round(1.0 / (1.0 - discount)), 1), math.inf
    order = torch.argsort(episodes, stable=True)
    for episode in rewards[order].split(torch.unique(episodes, return_counts=True)[1].tolist()):
        length = min(window, len(episode))
        sums = torch.cat([episode.new_zeros(1), episode.cumsum(dim=0)])
        lowest = min(lowest, float((sums[length:] - sums[:-length]).min()) / length)
    return lowest


# Ends, and other next states, that the nearest one is looked up among.
_MOST_STATES = 10_000


@dataclass(frozen=True, slots=True)
class TerminationRule:
    """The task ends where a state column lies beyond a threshold.

    Typical ends are a level too high or a joint at its stop. If a few thresholds separate all ends in the
    data from all other rows, they are the rule, each half way between the two. Otherwise the task ends where
    the nearest logged next state was an end.
    """

    columns: Tensor  # the state column of each threshold, (k,)
    signs: Tensor  # 1 if ends lie above, −1 if below, (k,)
    thresholds: Tensor  # thresholds times the sign, (k,)
    # A tree of logged next states, and whether each was an end; None if there are thresholds
    nearest: tuple[cKDTree, Tensor] | None
    space: InputSpace  # units and angles of the states

    @classmethod
    def of(cls, data: Transitions, space: InputSpace) -> TerminationRule:
        """Return the rule of a log."""
        chosen = _separating_thresholds(data.next_states, data.terminated)
        if chosen is None:
            ends = data.terminated.nonzero()[:, 0]
            others = (~data.terminated).nonzero()[:, 0]
            rows = torch.cat([part[:: -(-len(part) // _MOST_STATES) or 1] for part in (ends, others)])
            points = space.embed(data.next_states[rows])
            nearest, chosen = (cKDTree(points.numpy()), data.terminated[rows]), []
        else:
            nearest = None
        columns, signs, thresholds = zip(*chosen, strict=True) if chosen else ((), (), ())
        return cls(
            torch.tensor(columns, dtype=torch.int64),
            torch.tensor(signs, dtype=torch.float64),
            torch.tensor(thresholds, dtype=torch.float64),
            nearest,
            space,
        )

    @property
    def never(self) -> bool:
        """Whether no state ends the task."""
        return len(self.columns) == 0 and self.nearest is None

    def ended(self, states: Tensor) -> Tensor:
        """Return whether raw states (m, d_s) end the task, shape (m,)."""
        if self.nearest is not None:
            tree, ends = self.nearest
            _, near = tree.query(self.space.embed(states).numpy(), k=1)
            return ends[torch.as_tensor(near)]
        return (states[:, self.columns] * self.signs > self.thresholds).any(dim=1)


def _separating_thresholds(states: Tensor, ended: Tensor) -> list[tuple[int, float, float]] | None:
    """Return (column, sign, threshold) that explain all ends and no other row; None if there are none."""
    if not bool(ended.any()):
        return []
    if bool(ended.all()):
        return None
    sides = [(column, sign) for column in range(states.shape[1]) for sign in (1.0, -1.0)]
    height = {side: side[1] * states[:, side[0]] for side in sides}
    last = {side: height[side][~ended].max() for side in sides}
    chosen, left = [], ended.clone()
    while bool(left.any()):
        side = max(sides, key=lambda side: int((left & (height[side] > last[side])).sum()))
        beyond = left & (height[side] > last[side])
        if not bool(beyond.any()):
            return None
        first = height[side][ended & (height[side] > last[side])].min()
        chosen.append((*side, float((last[side] + first) / 2)))
        left &= ~beyond
    return chosen
