"""A reward that is known as a formula of the columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from nopg._expressions import Expression
from nopg._units import check_units
from nopg.data._derive import lag_name
from nopg.data._schema import Schema
from nopg.errors import DataError


def actions_before(formula: str, schema: Schema) -> dict[str, int]:
    """Return the lags that a reward needs and the states lack: 1 of every action with a `diff`."""
    names = Expression(formula, "the reward").names
    return {
        action: 1
        for action in schema.actions
        if f"diff({action})" in names and lag_name(action, 1) not in schema.derived
    }


@dataclass(frozen=True, slots=True)
class RewardFormula:
    """The reward of a step as a formula of its state and action.

    Names are columns in the row of the action. `next(level)` is the state that the step led to, and
    `diff(level)` its change in the step, an angle's the short way round. `diff(valve)` of an action is its
    change since the step before, which needs its lag among the states; see `actions_before`. Quantities of
    different declared units are not added or compared; see `check_units`.

    Attributes:
        text: The formula.
        schema: Names and angles of the columns.

    Example:
        >>> import torch
        >>> reward = RewardFormula("-next(level) ** 2 - 0.1 * abs(valve)", Schema(("level",), ("valve",)))
        >>> level, valve, after = (torch.tensor([[value]]) for value in (3.0, -5.0, 2.0))
        >>> reward(level, valve, after).tolist()
        [-4.5]
    """

    text: str
    schema: Schema
    _expression: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_expression", Expression(self.text, "the reward"))
        states, actions = self.schema.states, self.schema.actions
        known = {*states, *actions, *(f"{f}({name})" for name in states for f in ("next", "diff"))}
        if lacking := actions_before(self.text, self.schema):
            raise DataError(
                f"the reward {self.text!r} needs the actions before; add them to the states with "
                f"derive(lags={lacking})"
            )
        for name in self._expression.names:
            if name not in known | {f"diff({action})" for action in actions}:
                raise DataError(
                    f"{name!r} in the reward {self.text!r} is neither a state nor an action; the states are "
                    f"{list(states)}, the actions {list(actions)}. Make it a state, or compute the reward as "
                    "a column"
                )
        check_units(self._expression, self.schema.units)

    def __call__(self, states: Tensor, actions: Tensor, next_states: Tensor) -> Tensor:
        """Return the reward (m,) of steps from raw states (m, d_s) by actions (m, d_a)."""
        names, apart = self.schema.states, self.schema.difference(states, next_states)
        named = dict(zip(names, states.T, strict=True)) | dict(
            zip(self.schema.actions, actions.T, strict=True)
        )
        named |= {f"next({name})": next_states[:, k] for k, name in enumerate(names)}
        named |= {f"diff({name})": apart[:, k] for k, name in enumerate(names)}
        named |= {
            f"diff({action})": named[action] - named[before]
            for action in self.schema.actions
            if (before := lag_name(action, 1)) in self.schema.derived
        }
        rewards: Tensor = self._expression(named)
        return rewards
