"""The bandwidths of an untuned user: held-out error, bounded by spacing below and steps above."""

from __future__ import annotations

import logging

import torch

from nopg.bandwidths._leave_one_out import leave_one_out
from nopg.bandwidths._spacing import level_spacing, step_length
from nopg.bandwidths._table import RegressionTable
from nopg.data import Transitions
from nopg.kernels import Bandwidths

__all__ = ["select_bandwidths"]

_log = logging.getLogger(__name__)

# Between two levels δ apart, h = δ/2 gives the responsibilities the slope of linear interpolation.
_ACTION_SHARE = 0.5
# States also diffuse by h in every step of the model; a grid search over pendulum grids found .3.
_STATE_SHARE = 0.3
# A step shorter than half a bandwidth hardly leaves its own neighbourhood: the model sticks.
_STEPS_PER_BANDWIDTH = 2.0


def select_bandwidths(data: Transitions) -> Bandwidths:
    """Choose bandwidths from the data alone; the value of a policy plays no part.

    They minimise the leave-one-out error of the one-step targets (r, s′), by episode where there are
    episodes (`leave_one_out`), between two bounds:

    - Above, widths on states are at most two median steps, lest the model stick to where it is.
    - Below, widths are at least a share of the spacing between the levels of a grid. On a grid each
      held-out row sits in the middle of its neighbours, where the errors of a staircase cancel:
      leave-one-out cannot see them and would choose too narrow a kernel.

    Where the two contradict each other the spacing wins, since without it there are holes. Actions are
    raised to their spacing last: raised before, they would blur the targets, and the widths on states
    would grow to make up for it.
    """
    table = RegressionTable.from_data(data)
    columns = torch.tensor(data.schema.feature_columns)
    state_gap, action_gap = level_spacing(data)
    narrowest = torch.cat([(_STATE_SHARE * state_gap)[columns], torch.zeros_like(action_gap)])
    longest = (_STEPS_PER_BANDWIDTH * step_length(data))[columns]
    longest = torch.where(longest > 0, longest, torch.inf)  # a column that mostly rests bounds nothing
    widest = torch.maximum(narrowest, torch.cat([longest, torch.full_like(action_gap, torch.inf)]))

    found = leave_one_out(table, narrowest=narrowest, widest=widest)
    narrowest[len(columns) :] = _ACTION_SHARE * action_gap
    h = torch.maximum(found.bandwidths, narrowest)

    source = "leave-one-out" + _bounds_met(data, h, narrowest, widest)
    _log.info("bandwidths by %s; held-out error %.3g of the variance", source, found.error)
    states, actions = h.split([len(columns), len(action_gap)])
    return Bandwidths.from_values(states, actions, source=source)


def _bounds_met(data: Transitions, h: torch.Tensor, narrowest: torch.Tensor, widest: torch.Tensor) -> str:
    names = (*data.schema.features, *data.schema.actions)
    low = [name for k, name in enumerate(names) if h[k] <= narrowest[k] * (1 + 1e-9)]
    high = [name for k, name in enumerate(names) if h[k] >= widest[k] * (1 - 1e-9) and name not in low]
    text = f", held up by the spacing of the data on {', '.join(low)}" if low else ""
    return text + (f", held down by the length of a step on {', '.join(high)}" if high else "")
