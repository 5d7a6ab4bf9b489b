"""The gains of a trained controller, each with the predicted return around its value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nopg._typing import FloatArray
from nopg.errors import ArgumentError
from nopg.evaluation import OfflineEvaluator
from nopg.policies import FormulaPolicy
from nopg.training._controller import Controller

__all__ = ["GainCurve", "GainTable", "gain_table"]

# Factors of a gain; of one that is nearly 0, steps in shares of its scale.
_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
_STEPS, _NEARLY_ZERO = (-0.1, -0.05, 0.0, 0.05, 0.1), 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class GainCurve:
    """The predicted return over one gain, the others as they were trained.

    Attributes:
        name: Of the gain.
        value: As trained, in the units of the plant.
        values: Where the return was predicted, in rising order, shape (k,).
        returns: Predicted returns, shape (k,).
        low: Lower ends of their intervals, shape (k,).
        high: Upper ends, shape (k,).
    """

    name: str
    value: float
    values: FloatArray
    returns: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, repr=False)
class GainTable:
    """All gains of a controller; printed, one line for each predicted return.

    Attributes:
        laws: Formula of each action.
        curves: One for each gain.
    """

    laws: dict[str, str]
    curves: tuple[GainCurve, ...]

    def __iter__(self) -> Iterator[GainCurve]:
        return iter(self.curves)

    def __len__(self) -> int:
        return len(self.curves)

    def __getitem__(self, name: str) -> GainCurve:
        return {curve.name: curve for curve in self.curves}[name]

    def __repr__(self) -> str:
        lines = [f"{action} = {text}" for action, text in self.laws.items()]
        for one in self.curves:
            lines.append(f"{one.name} = {one.value:.4g}")
            rows = zip(one.values, one.returns, one.low, one.high, strict=True)
            lines += [f"  {v:>10.4g}: return {r:.4g} in [{low:.4g}, {high:.4g}]" for v, r, low, high in rows]
        return "\n".join(lines)


def gain_table(controller: Controller, evaluator: OfflineEvaluator) -> GainTable:
    """Return the gains of a controller that is formulas; another one is refused."""
    policy = controller.policy
    if not isinstance(policy, FormulaPolicy):
        raise ArgumentError(
            f"a {type(policy).__name__} has no gains; train a structure, such as optimize(…, policy='pi')"
        )
    return GainTable(
        policy.law.to_dict()["formulas"],
        tuple(_curve(controller, policy, name, evaluator) for name in policy.law.gains),
    )


def _curve(
    controller: Controller, policy: FormulaPolicy, name: str, evaluator: OfflineEvaluator
) -> GainCurve:
    value, scale = policy.gains[name], float(policy.scales[policy.law.gains.index(name)])
    values = np.sort(value * np.array(_FACTORS))
    if abs(value) < _NEARLY_ZERO * scale:
        values = value + scale * np.array(_STEPS)
    found = []
    for one in values:
        other = copy.deepcopy(policy)
        other.set_gains(**{name: float(one)})
        found.append(evaluator.evaluate(replace(controller, policy=other)))
    ends = np.array([evaluation.interval for evaluation in found])
    returns = np.array([evaluation.expected_return for evaluation in found])
    return GainCurve(name, value, values, returns, ends[:, 0], ends[:, 1])
