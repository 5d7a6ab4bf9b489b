"""What is predicted around a trained controller: over its gains, and over its deviation from the log."""

from __future__ import annotations

import copy
from collections.abc import Sequence
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


def gain_curves(controller: Controller, evaluator: OfflineEvaluator) -> tuple[GainCurve, ...]:
    """Return one curve for each gain of a controller that is formulas; another one is refused."""
    policy, curves = controller.policy, list[GainCurve]()
    if not isinstance(policy, FormulaPolicy):
        raise ArgumentError(
            f"a {type(policy).__name__} has no gains; train a structure, such as optimize(…, policy='pi')"
        )
    for name, scale in zip(policy.law.gains, policy.scales.tolist(), strict=True):
        value = policy.gains[name]
        values = np.sort(value * np.array(_FACTORS))
        if abs(value) < _NEARLY_ZERO * scale:
            values = value + scale * np.array(_STEPS)
        found = []
        for one in values.tolist():
            other = copy.deepcopy(policy)
            other.set_gains(**{name: one})
            found.append(evaluator.assess(replace(controller, policy=other)))
        ends = np.array([one.interval for one in found])
        returns = np.array([one.expected_return for one in found])
        curves.append(GainCurve(name, value, values, returns, ends[:, 0], ends[:, 1]))
    return tuple(curves)


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


def may_deviate(policy: Policy) -> TypeGuard[MLPPolicy | FormulaPolicy | LinearPolicy]:
    """Return whether a policy can be kept near the logged controller; one with limited rates cannot."""
    return isinstance(policy, (MLPPolicy, FormulaPolicy, LinearPolicy))


def limited(controller: Controller, data: Transitions, share: float) -> Controller:
    """Return the controller within a share, from 0 to 1, of the logged range around what was logged."""
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
    imitate(formulas, data.features, data.actions, weights, runs=(~data.continues).cumsum(dim=0))
    span = (formulas.high - formulas.low) / 2

    def error(one: Policy) -> float:
        apart = (one.mode(data.features) - data.actions) / span
        return float((weights[:, None] * apart.square()).sum())

    with torch.no_grad():
        return formulas if error(formulas) <= _WORSE * error(network) else network


def deviations(
    controller: Controller, evaluator: OfflineEvaluator, shares: Sequence[float] = _SHARES
) -> tuple[Deviation, ...]:
    """Return what is predicted with each limit, in rising order, from a limit of 0 on."""
    family = limited(controller, evaluator.data, 0.0)
    base = evaluator.assess(family)
    steps = [Deviation(0.0, (0.0,) * len(controller.schema.actions), base, Gain(0.0, (0.0, 0.0)))]
    span = evaluator.data.actions.amax(dim=0) - evaluator.data.actions.amin(dim=0)
    for share in sorted({*shares} - {0.0}):
        found = evaluator.assess(limited(family, evaluator.data, share))
        steps.append(Deviation(share, tuple((share * span).tolist()), found, found.gain_over(base)))
    return tuple(steps)
