"""Controllers by structure or formula: the columns that they need, and the policy that is trained."""

from __future__ import annotations

from dataclasses import replace

from nopg.baselines import FirstOrderPlant
from nopg.data import Transitions
from nopg.policies import ControlStructure, FormulaPolicy, Formulas
from nopg.policies._structures import gain_name

__all__ = ["formula_policy", "with_columns"]


def with_columns(policy: ControlStructure | Formulas, data: Transitions) -> tuple[Transitions, Formulas]:
    """Return the data with the earlier values that a controller needs, and the controller as formulas.

    PI and PID controllers have the gains of the SIMC rule at first.
    """
    if isinstance(policy, ControlStructure):
        states = data.schema.decode(data.features)
        means = dict(zip(data.schema.states, states.mean(dim=0).tolist(), strict=True))
        formulas = policy.formulas(data.schema, means)
        policy = replace(formulas, gains={**formulas.gains, **_rule(policy, data)})
    return data.derive(lags=policy.lags(data.schema), formulas=policy.columns), policy


def _rule(structure: ControlStructure, data: Transitions) -> dict[str, float]:
    """Return the gains of PI and PID controllers by the SIMC rule from the same log, by name."""
    found, schema = dict[str, float](), data.schema
    for action, (output, _) in structure.loops(schema).items() if structure.kind in {"pi", "pid"} else ():
        plant = FirstOrderPlant.of(data, output, action)
        if plant.gain != 0.0:
            kp, steps = plant.tuned()
            found[gain_name("kp", action, schema)] = kp
            found[gain_name("ki", action, schema)] = kp / (steps * (schema.interval or 1.0))
    return found


def formula_policy(formulas: Formulas, data: Transitions) -> FormulaPolicy:
    """Return the policy of formulas, with scales and limits of the data."""
    return FormulaPolicy.from_data(
        data.schema, formulas.actions, formulas.gains, features=data.features, actions=data.actions
    )
