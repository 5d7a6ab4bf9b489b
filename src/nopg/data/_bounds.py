"""What a log must be before a controller rests on it: enough rows, actions that vary, rows within bounds."""

from __future__ import annotations

import math

import torch

from nopg.data._schema import Schema
from nopg.data._transitions import Transitions
from nopg.errors import ArgumentError, DataError

# Largest excess over a bound, as a share of its width, that counts as the rounding of a logged action or the
# noise of a sensor; beyond it, the bounds that rollouts keep are not those of the plant.
_ROUNDING, _SENSOR_NOISE = 1e-6, 0.05


def check_bounds(data: Transitions, schema: Schema | None = None) -> None:
    """Refuse bounds, of the log or of another schema, that logged actions or states do not keep.

    Actions are clipped to their bounds on the plant, and states of rollouts on the model; angles have none.
    """
    schema = schema or data.schema
    columns = dict(zip(schema.states, data.states.T, strict=True))
    columns |= dict(zip(schema.actions, data.actions.T, strict=True))
    for name, (low, high) in schema.bounds.items():
        if name in schema.angles:
            continue
        column, is_action = columns[name], name in schema.actions
        width = high - low if math.isfinite(high - low) else float(column.max() - column.min())
        beyond = torch.maximum(low - column, column - high)
        if outside := int((beyond > (_ROUNDING if is_action else _SENSOR_NOISE) * width).sum()):
            row = int(beyond.argmax())
            applied = "store the action as it was applied, after clipping"
            advice = applied if is_action else "drop the rows if the sensor erred"
            raise DataError(
                f"the declared bounds of {name!r} are [{low:g}, {high:g}], but {outside} of {len(column)} "
                f"logged rows lie outside, by up to {float(beyond[row]):.4g} (row {row} has "
                f"{float(column[row]):.6g}); correct the bounds, or {advice}"
            )


def check_log(data: object) -> None:
    """Refuse what is no dataset, such as the name of a file."""
    if not isinstance(data, Transitions):
        raise ArgumentError(
            f"data is of type {type(data).__name__}; read a file with nopg.read_csv(path, states=…, "
            "actions=…, reward=…), or make nopg.Transitions.from_arrays(…) of arrays"
        )


def check_trainable(data: Transitions) -> None:
    """Refuse a log too short for a linear model of either half, and a constant action without bounds."""
    schema, rows = data.schema, len(data)
    if rows < (needed := 2 * (1 + len(schema.features) + len(schema.actions))):
        raise DataError(
            f"{rows} rows are too few to train a controller of {len(schema.states)} states and "
            f"{len(schema.actions)} actions; it needs {needed}, and many more to be good"
        )
    for name in schema.actions:
        if name in data.constant_columns and name not in schema.bounds:
            value = float(data.actions[0, schema.actions.index(name)])
            raise DataError(
                f"the action {name!r} is {value:g} in every row: the log does not show what it does; record "
                "rows in which it varies, or leave it out"
            )


def action_limits(data: Transitions) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the lowest and highest actions (d_a,) of a controller: its bounds, else the logged range."""
    low, high = data.actions.amin(dim=0), data.actions.amax(dim=0)
    for k, name in enumerate(data.schema.actions):
        declared = data.schema.bounds.get(name, (-math.inf, math.inf))
        low[k], high[k] = (
            given if math.isfinite(given) else float(logged)
            for given, logged in zip(declared, (low[k], high[k]), strict=True)
        )
    return low, high
