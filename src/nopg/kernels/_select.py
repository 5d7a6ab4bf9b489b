"""The bandwidths of an untuned user: held-out error, bounded by spacing below and steps above."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from nopg.data import Transitions
from nopg.kernels._bandwidths import Bandwidths
from nopg.kernels._leave_one_out import leave_one_out, nearest_held_out
from nopg.kernels._spacing import level_spacing, step_length
from nopg.kernels._table import RegressionTable

__all__ = ["select_bandwidths"]

_log = logging.getLogger(__name__)

# Between two levels δ apart, h = δ/2 gives the responsibilities the slope of linear interpolation: for the
# levels of a grid that is the least, for the two ends of all actions the most.
_ACTION_SHARE = 0.5
# States also diffuse by h in every step of the model; a grid search over pendulum grids found .3.
_STATE_SHARE = 0.3
# A step shorter than half a bandwidth hardly leaves its own neighbourhood: the model sticks.
_STEPS_PER_BANDWIDTH = 2.0
# Farther than this from the next sample, in bandwidths, a row stands alone; on grids it is 2 by torque.
_FARTHEST = 2.0


def select_bandwidths(data: Transitions) -> Bandwidths:
    """Choose bandwidths from the data alone; the value of a policy plays no part.

    They minimise the leave-one-out error of the one-step targets (r, s′), by episode where there are
    episodes (`leave_one_out`), between bounds:

    - Above, widths on states are at most two median steps, lest the model stick to where it is, and
      widths on actions at most half the range of the actions, lest it be blind to them.
    - Below, widths are at least a share of the spacing between the levels of a grid. On a grid each
      held-out row sits in the middle of its neighbours, where the errors of a staircase cancel:
      leave-one-out cannot see them and would choose too narrow a kernel.
    - Widths on states grow together until the median row has another within two bandwidths; without
      that there are holes.

    Where bounds contradict each other the lower wins. Actions are raised to their spacing after the
    search: raised before, they would blur the targets, and the widths on states would grow to make up
    for it.
    """
    table = RegressionTable.from_data(data)
    columns = torch.tensor(data.schema.feature_columns)
    state_gap, action_gap = level_spacing(data)
    narrowest = torch.cat([(_STATE_SHARE * state_gap)[columns], torch.zeros_like(action_gap)])
    widest = torch.maximum(narrowest, _widest(data))

    found = leave_one_out(table, narrowest=narrowest, widest=widest)
    narrowest[len(columns) :] = _ACTION_SHARE * action_gap
    h = torch.maximum(found.bandwidths, narrowest)
    loneliness = nearest_held_out(table, h) / _FARTHEST
    lonely = loneliness > 1.0 + 1e-9
    if lonely:
        h[: len(columns)] *= loneliness

    source = "leave-one-out" + _bounds_met(data, h, narrowest, widest)
    if lonely:
        source += f", states widened {loneliness:.2g} times to reach from row to row"
    _log.info("bandwidths by %s; held-out error %.3g of the variance", source, found.error)
    states, actions = h.split([len(columns), len(action_gap)])
    return Bandwidths.from_values(states, actions, source=source)


def _widest(data: Transitions) -> Tensor:
    """Return the largest h of every feature and action: two steps, half of all actions."""
    columns = torch.tensor(data.schema.feature_columns)
    longest = (_STEPS_PER_BANDWIDTH * step_length(data))[columns]
    longest = torch.where(longest > 0, longest, torch.inf)  # a column that mostly rests bounds nothing
    action_range = data.actions.amax(dim=0) - data.actions.amin(dim=0)
    return torch.cat([longest, _ACTION_SHARE * action_range])


def _bounds_met(data: Transitions, h: Tensor, narrowest: Tensor, widest: Tensor) -> str:
    names = (*data.schema.features, *data.schema.actions)
    low = [name for k, name in enumerate(names) if h[k] <= narrowest[k] * (1 + 1e-9)]
    high = [name for k, name in enumerate(names) if h[k] >= widest[k] * (1 - 1e-9) and name not in low]
    text = f", held up by the spacing of the data on {', '.join(low)}" if low else ""
    return text + (f", held down by steps or the range of actions on {', '.join(high)}" if high else "")
