"""Controllers by structure or formula: the columns that they need, and the policy that is trained."""

from __future__ import annotations

from nopg.data import Transitions
from nopg.policies import ControlStructure, FormulaPolicy, Formulas

__all__ = ["formula_policy", "with_columns"]


def with_columns(policy: ControlStructure | Formulas, data: Transitions) -> tuple[Transitions, Formulas]:
    """Return the data with the earlier values that a controller needs, and the controller as formulas."""
    if isinstance(policy, ControlStructure):
        states = data.schema.decode(data.features)
        means = dict(zip(data.schema.states, states.mean(dim=0).tolist(), strict=True))
        policy = policy.formulas(data.schema, means)
    return data.derive(lags=policy.lags(data.schema), formulas=policy.columns), policy


def formula_policy(formulas: Formulas, data: Transitions) -> FormulaPolicy:
    """Return the policy of formulas, with scales and limits of the data."""
    return FormulaPolicy.from_data(
        data.schema, formulas.actions, formulas.gains, features=data.features, actions=data.actions
    )
