"""Least squares and LQR: where a network begins, and a controller that a network has to beat."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nopg._expressions import quoted
from nopg.baselines import LinearQuadraticFit, Regulator
from nopg.bellman import MultistepProblem
from nopg.data import Schema, Transitions
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._interval import cautious_return
from nopg.evaluation._model_paths import ModelPaths, follow
from nopg.policies import FormulaPolicy, Policy
from nopg.policies._structures import gain_name

__all__ = ["LQR", "PARTS", "followed", "linear_law", "regulators"]

LQR = "least squares and LQR"
PARTS = 3
"""Parts of the model in the objective: all rows, and one half with its complement."""

# Prices of departing from the log that regulators are tried with.
_CAUTIONS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


def followed(problem: MultistepProblem, law: Policy) -> ModelPaths:
    """Return the paths of a controller through the parts that a training compares controllers on."""
    return follow(problem, law, num_parts=min(PARTS, problem.model.num_parts))


def regulators(problem: MultistepProblem) -> Iterator[tuple[str, Regulator]]:
    """Yield least squares and LQR, and the cautious one with the highest return, if that is higher."""
    data, best = problem.model.data, -math.inf
    found: list[tuple[str, Regulator]] = []
    fit = LinearQuadraticFit.of(data)
    if fit is None:
        return
    for caution in _CAUTIONS:
        regulator = fit.regulator(problem.discount, caution=caution)
        if regulator is None:
            continue
        value = cautious_return(followed(problem, PolicyLaw.of(regulator, data.schema)))
        if not caution:
            yield LQR, regulator
        elif value > best:
            found = [(f"cautious LQR, {caution:g}", regulator)]
        best = max(best, value)
    yield from found


def linear_law(regulator: Regulator, data: Transitions) -> FormulaPolicy | None:
    """Return a regulator as a policy of formulas; None where an action has only one logged value.

    Args:
        regulator: Of the data.
        data: The log.
    """
    if not bool((regulator.low < regulator.high).all()):
        return None
    schema, formulas, gains = data.schema, dict[str, str](), dict[str, float]()
    for action, offset, row in zip(
        schema.actions, regulator.offset.tolist(), regulator.gain.tolist(), strict=True
    ):
        terms = []
        for column, value in [("", offset), *zip(schema.states, row, strict=True)]:
            name = _gain_name(column, action, schema, taken=gains)
            gains[name] = value
            terms.append(f"{name} * {quoted(column)}" if column else name)
        formulas[action] = " + ".join(terms)
    return FormulaPolicy.from_data(schema, formulas, gains, features=data.features, actions=data.actions)


def _gain_name(column: str, action: str, schema: Schema, taken: dict[str, float]) -> str:
    """Return a new name for the gain of a column, or for the offset of an action."""
    name = gain_name(f"k_{column}" if column else "offset", action, schema)
    used = {*taken, *schema.states, *schema.actions}
    while name in used:
        name += "_"
    return name
