"""The default bandwidths: least held-out error, bounded below by the spacing and above by the step length."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from nopg.data import Transitions
from nopg.kernels._bandwidths import Bandwidths
from nopg.kernels._leave_one_out import leave_one_out, nearest_held_out
from nopg.kernels._spacing import level_spacing, step_length
from nopg.kernels._table import RegressionTable

_log = logging.getLogger(__name__)

# Between two levels δ apart, h = δ/2 gives the slope of linear interpolation: the lower bound between levels
# of a grid, the upper bound between the extreme actions.
_ACTION_SHARE = 0.5
# States also diffuse by h in every step of the model; 0.3 comes from a search over pendulum grids.
_STATE_SHARE = 0.3
# After a step shorter than half a bandwidth the model predicts almost no motion.
_STEPS_PER_BANDWIDTH = 2.0
# Largest median distance to the nearest other row, in bandwidths; on grids it is 2 by torque.
_LARGEST_DISTANCE = 2.0


def select_bandwidths(data: Transitions) -> Bandwidths:
    """Choose bandwidths from the data alone; the value of a policy plays no part.

    They minimise the leave-one-out error of the one-step targets (r, s′), by episode where there are
    episodes (`leave_one_out`), between bounds:

    - Above: bandwidths of states are at most two median steps, otherwise the model predicts almost no
      motion, and those of actions at most half their range, otherwise it ignores the action.
    - Below: bandwidths are at least a share of the spacing between the levels of a grid. On a grid each
      held-out row is in the middle of its neighbours, where the errors of a step function cancel:
      leave-one-out would choose too narrow a kernel.
    - Bandwidths of states are scaled up together until the median row has another within two bandwidths.

    If bounds contradict each other the lower one holds. Actions are raised to their spacing after the
    search: raised before, they would blur the targets, and the bandwidths of states would grow to compensate.
    """
    table = RegressionTable.from_data(data)
    columns = torch.tensor(data.schema.feature_columns)
    state_gap, action_gap = level_spacing(data)
    narrowest = torch.cat([(_STATE_SHARE * state_gap)[columns], torch.zeros_like(action_gap)])
    widest = torch.maximum(narrowest, _widest(data))

    found = leave_one_out(table, narrowest=narrowest, widest=widest)
    narrowest[len(columns) :] = _ACTION_SHARE * action_gap
    h = torch.maximum(found.bandwidths, narrowest)
    widening = nearest_held_out(table, h) / _LARGEST_DISTANCE
    sparse = widening > 1.0 + 1e-9
    if sparse:
        h[: len(columns)] *= widening

    source = "leave-one-out" + _bounds_met(data, h, narrowest, widest)
    if sparse:
        source += f", states widened {widening:.2g} times to reach from row to row"
    _log.info("bandwidths by %s; held-out error %.3g of the variance", source, found.error)
    states, actions = h.split([len(columns), len(action_gap)])
    return Bandwidths.from_values(states, actions, source=source)


def _widest(data: Transitions) -> Tensor:
    """Return the largest h of every feature and action: two steps, half of all actions."""
    columns = torch.tensor(data.schema.feature_columns)
    longest = (_STEPS_PER_BANDWIDTH * step_length(data))[columns]
    longest = torch.where(longest > 0, longest, torch.inf)  # a column that is mostly constant has no bound
    action_range = data.actions.amax(dim=0) - data.actions.amin(dim=0)
    return torch.cat([longest, _ACTION_SHARE * action_range])


def _bounds_met(data: Transitions, h: Tensor, narrowest: Tensor, widest: Tensor) -> str:
    names = (*data.schema.features, *data.schema.actions)
    low = [name for k, name in enumerate(names) if h[k] <= narrowest[k] * (1 + 1e-9)]
    high = [name for k, name in enumerate(names) if h[k] >= widest[k] * (1 - 1e-9) and name not in low]
    text = f", held up by the spacing of the data on {', '.join(low)}" if low else ""
    return text + (f", held down by steps or the range of actions on {', '.join(high)}" if high else "")
