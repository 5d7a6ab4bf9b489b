"""Supervised fit of a policy to actions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.optimize import minimize
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from nopg._typing import FloatArray
from nopg.policies._deterministic import MLPPolicy
from nopg.policies._formula import FormulaPolicy
from nopg.policies._gaussian import GaussianMLPPolicy
from nopg.policies._policy import Policy, trainable

_HISTORY = 20
# Decimals of a standardised example: fewer than rounding changes on the way there, more than a plant shows.
_DIGITS = 6
# Of the range of an action: how near to a limit an action counts as clipped.
_CLIPPED = 1e-6
_SMALLEST_STEP, _LEAST_GAIN, _LEAST_SLOPE = 1e-3, 1e-12, 1e-9
# Errors of successive rows that are correlated less than this are differences of noise, whose own is −1/2.
_DIFFERENCED = -0.25


def imitate(
    policy: Policy,
    features: torch.Tensor,
    actions: torch.Tensor,
    weights: torch.Tensor | None = None,
    *,
    steps: int = 100,
    runs: torch.Tensor | None = None,
) -> float:
    """Fit the mode of a policy to actions, in place, and return the final mean squared error.

    Errors are in units of half the range of each action; L-BFGS on all examples at once, for formulas
    Gauss-Newton, which is least squares where they are linear in their gains. A network sees its examples
    standardised and rounded, since L-BFGS enlarges the rounding of a change of units.

    Args:
        policy: Changed in place.
        features: States (m, d_f).
        actions: Target actions, (m, d_a).
        weights: Weights of the states, (m,), one each by default.
        steps: Largest number of iterations.
        runs: For formulas, number of the run of successive logged rows that each state is of, (m,). A
            controller that adds to the action before, as incremental PI does, meets the noise of two rows in
            every error; errors are then summed up along runs, where the noise of one is left.
    """
    weights = torch.ones(len(features), dtype=torch.float64) if weights is None else weights
    if isinstance(policy, FormulaPolicy):
        found = _least_squares(policy, features, actions, weights, steps=steps)
        if runs is None or not _is_differenced(policy, features, actions, runs):
            return found
        return _least_squares(policy, features, actions, weights, steps=steps, runs=runs)
    parameters, (mode, features, actions) = trainable(policy), _without_units(policy, features, actions)
    scale = (actions.amax(dim=0) - actions.amin(dim=0)).clamp(min=1e-12) / 2
    share = (weights / weights.sum())[:, None] / actions.shape[1]

    def put(values: FloatArray) -> None:
        vector_to_parameters(torch.as_tensor(values).to(parameters[0]), parameters)

    def error(values: FloatArray) -> tuple[float, FloatArray]:
        put(values)
        total = (share * ((mode(features) - actions) / scale).square()).sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
        return float(total.detach()), parameters_to_vector(gradients).double().numpy()

    found = minimize(
        error,
        parameters_to_vector(parameters).detach().double().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxcor": _HISTORY, "ftol": _LEAST_GAIN, "gtol": _LEAST_SLOPE},
    )
    put(found.x)
    return float(found.fun)


def _without_units(
    policy: Policy, features: torch.Tensor, actions: torch.Tensor
) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor, torch.Tensor]:
    """Return the mode of a network in shares of its range, the standardised inputs of that, and targets."""
    if not isinstance(policy, (MLPPolicy, GaussianMLPPolicy)):
        return policy.mode, features, actions
    network = policy.network
    inputs, targets = network.standardizer.at(features), policy.action_range.share(actions)
    return (
        lambda standardized: network.at(standardized)[:, : policy.num_actions].tanh(),
        inputs.round(decimals=_DIGITS),
        targets.round(decimals=_DIGITS),
    )


@torch.no_grad()
def _least_squares(
    policy: FormulaPolicy,
    features: torch.Tensor,
    actions: torch.Tensor,
    weights: torch.Tensor,
    *,
    steps: int,
    runs: torch.Tensor | None = None,
) -> float:
    """Fit formulas before they are clipped to the actions that are not; a step that leads up is halved.

    With runs, errors are summed up along each, less their mean.
    """
    span = policy.high - policy.low
    inside = (actions > policy.low + _CLIPPED * span) & (actions < policy.high - _CLIPPED * span)
    share = weights[:, None] * inside / (span / 2).square()
    share = share / weights.sum() / actions.shape[1]
    raw, root = policy.raw.detach().clone(), share.sqrt()

    if runs is not None:
        free = inside.all(dim=1)
        runs = runs + (~free).cumsum(dim=0)  # at a limit, what was asked for is not known

    def summed(values: torch.Tensor) -> torch.Tensor:
        return values if runs is None else _summed(values, runs, free)

    def residual(parameters: torch.Tensor) -> torch.Tensor:
        return summed(root * (policy.asked(features, parameters) - actions))

    error = float(residual(raw).square().sum())
    for _ in range(steps):
        slopes = summed(root[:, :, None] * policy.slopes(features, raw)).flatten(0, 1)
        step = torch.linalg.lstsq(slopes, -residual(raw).reshape(-1, 1), driver="gelsd").solution[:, 0]
        size = 1.0
        while not (found := float(residual(raw + size * step).square().sum())) < error:
            size /= 2
            if size < _SMALLEST_STEP:
                break
        if not found < error:
            break
        raw, gained, error = raw + size * step, error - found, found
        if gained <= _LEAST_GAIN * error:
            break
    policy.raw.copy_(raw)
    return float((share * (policy.mode(features) - actions).square()).sum())


def _summed(values: torch.Tensor, runs: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return sums along runs of values (m, …), less the mean of their run; 0 where they do not count (m,)."""
    sums, run = values.cumsum(dim=0), runs.unique(return_inverse=True)[1]
    counts = counted.to(values).view(-1, *(1,) * (values.dim() - 1))
    total = sums.new_zeros(int(run.max()) + 1, *values.shape[1:]).index_add_(0, run, counts * sums)
    number = sums.new_zeros(len(total), *counts.shape[1:]).index_add_(0, run, counts)
    return counts * (sums - (total / number.clamp(min=1.0))[run])


@torch.no_grad()
def _is_differenced(
    policy: FormulaPolicy, features: torch.Tensor, actions: torch.Tensor, runs: torch.Tensor
) -> bool:
    """Return whether errors of successive rows are those of noise that was differenced."""
    errors = actions - policy.asked(features, policy.raw)
    errors = (errors - errors.mean(dim=0)) / errors.std(dim=0).clamp(min=1e-300)
    follows = runs[1:] == runs[:-1]
    if not bool(follows.any()):
        return False
    return float((errors[1:] * errors[:-1])[follows].mean()) < _DIFFERENCED
