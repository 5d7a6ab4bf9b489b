"""What is predicted around a trained controller: over its gains, and over its deviation from the log."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.baselines import cloned
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment, Gain, OfflineEvaluator
from nopg.policies import DeviationPolicy, FormulaPolicy, LinearPolicy, MLPPolicy, Policy
from nopg.policies._imitation import imitate
from nopg.training._controller import Controller

# Factors of a gain; of one that is nearly 0, steps in shares of its scale.
_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
_STEPS, _NEARLY_ZERO = (-0.1, -0.05, 0.0, 0.05, 0.1), 1e-3
# Limits of a deviation, as shares of the logged range.
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)
# How many times the squared error of a network formulas may have that imitate the log. White noise on the
# action doubles that of a controller that adds to the action before, the true one included; a network halves
# it by weighing the action before less, and no longer integrates.
_WORSE = 3.0


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
        found.append(evaluator.assess(replace(controller, policy=other)))
    ends = np.array([evaluation.interval for evaluation in found])
    returns = np.array([evaluation.expected_return for evaluation in found])
    return GainCurve(name, value, values, returns, ends[:, 0], ends[:, 1])


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """What is predicted with one limit of the deviation.

    Attributes:
        share: The limit as a share of the logged range of each action.
        limit: The limit of each action, in its unit.
        evaluation: The predicted return, with interval and verdict.
        gain: Over the base alone, a limit of 0.
    """

    share: float
    limit: tuple[float, ...]
    evaluation: Assessment
    gain: Gain


@dataclass(frozen=True, slots=True, repr=False)
class DeviationTable:
    """One training as a family of controllers, from the logged one to the trained one.

    Attributes:
        steps: One for each limit, in rising order; the last one allows any logged action.
        actions: Names of the actions.
    """

    steps: tuple[Deviation, ...]
    actions: tuple[str, ...]

    def __iter__(self) -> Iterator[Deviation]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        lines = [
            f"deviation of {', '.join(self.actions)}: return and gain over the logged controller, imitated"
        ]
        for one in self.steps:
            (low, high), (least, most) = one.evaluation.interval, one.gain.interval
            limit = ", ".join(f"{value:.4g}" for value in one.limit)
            lines.append(
                f"  ±{limit}: {one.evaluation.expected_return:.4g} in [{low:.4g}, {high:.4g}], "
                f"{one.evaluation.verdict}; gain {one.gain.mean:+.3g} in [{least:+.3g}, {most:+.3g}]"
            )
        return "\n".join(lines)


def may_deviate(policy: Policy) -> TypeGuard[MLPPolicy | FormulaPolicy | LinearPolicy]:
    """Return whether a policy can be kept near the logged controller; one with limited rates cannot."""
    return isinstance(policy, (MLPPolicy, FormulaPolicy, LinearPolicy))


def limited(controller: Controller, data: Transitions, share: float) -> Controller:
    """Return the controller within a share of the logged range of the actions around what was logged.

    Args:
        controller: A network, a formula or a linear law.
        data: Its log, which the same formulas or a network are fitted to.
        share: From 0 to 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ArgumentError(f"share is {share}; give a share of the logged range, from 0 to 1")
    policy = controller.policy
    if isinstance(policy, DeviationPolicy) and _is_imitation(policy.base):
        near = DeviationPolicy(policy.base, policy.policy, policy.limit)
    elif may_deviate(policy):
        near = DeviationPolicy(_imitation(policy, data), policy, torch.zeros(policy.num_actions))
    else:
        raise ArgumentError(
            f"a {type(policy).__name__} has no bounded deviation; train policy='deterministic' or a structure"
        )
    near.set_limit(share * (data.actions.amax(dim=0) - data.actions.amin(dim=0)))
    return replace(controller, policy=near)


def _is_imitation(base: Policy) -> bool:
    """Return whether a base imitates the log; that of limited rates is formulas without gains."""
    return isinstance(base, MLPPolicy) or (isinstance(base, FormulaPolicy) and bool(base.gains))


def _imitation(policy: Policy, data: Transitions) -> MLPPolicy | FormulaPolicy:
    """Return what acts as the log did: the formulas of a policy with other gains, else a network."""
    network = cloned(data)
    if not (isinstance(policy, FormulaPolicy) and policy.gains):
        return network
    formulas = copy.deepcopy(policy)
    weights = torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights
    follows = (data.states[1:] == data.next_states[:-1]).all(dim=1)
    runs = torch.cat([torch.zeros(1, dtype=torch.bool), ~follows]).cumsum(dim=0)
    imitate(formulas, data.features, data.actions, weights, runs=runs)
    span = (formulas.high - formulas.low) / 2

    def error(one: Policy) -> float:
        apart = (one.mode(data.features) - data.actions) / span
        return float((weights[:, None] * apart.square()).sum())

    with torch.no_grad():
        return formulas if error(formulas) <= _WORSE * error(network) else network


def deviation_table(
    controller: Controller, evaluator: OfflineEvaluator, shares: Sequence[float] = _SHARES
) -> DeviationTable:
    """Return what is predicted with each limit."""
    family = limited(controller, evaluator.data, 0.0)
    base = evaluator.assess(family)
    steps = [Deviation(0.0, (0.0,) * len(controller.schema.actions), base, Gain(0.0, (0.0, 0.0)))]
    for share in sorted({*shares} - {0.0}):
        near = limited(family, evaluator.data, share)
        assert isinstance(near.policy, DeviationPolicy)
        found = evaluator.assess(near)
        gain = found.gain_over(base)
        steps.append(Deviation(share, tuple(near.policy.limit.tolist()), found, gain))
    return DeviationTable(tuple(steps), controller.schema.actions)
