"""Supervised fit of a policy to actions."""

from __future__ import annotations

import torch

from nopg.policies._formula import FormulaPolicy
from nopg.policies._policy import Policy, trainable

__all__ = ["imitate"]

_HISTORY = 20
# Of the range of an action: how near to a limit an action counts as clipped.
_CLIPPED = 1e-6
_SMALLEST_STEP, _LEAST_GAIN = 1e-3, 1e-12


def imitate(
    policy: Policy, features: torch.Tensor, actions: torch.Tensor, weights: torch.Tensor, *, steps: int = 100
) -> float:
    """Fit the mode of a policy to actions, in place, and return the final mean squared error.

    Errors are in units of half the range of each action; L-BFGS on all examples at once, for formulas
    Gauss-Newton, which is least squares where they are linear in their gains.

    Args:
        policy: Changed in place.
        features: States (m, d_f).
        actions: Target actions, (m, d_a).
        weights: Weights of the states, (m,).
        steps: Largest number of iterations.
    """
    if isinstance(policy, FormulaPolicy):
        return _least_squares(policy, features, actions, weights, steps=steps)
    parameters = trainable(policy)
    scale = (actions.amax(dim=0) - actions.amin(dim=0)).clamp(min=1e-12) / 2
    share = (weights / weights.sum())[:, None] / actions.shape[1]
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=steps, history_size=_HISTORY, line_search_fn="strong_wolfe"
    )

    def error() -> torch.Tensor:
        total = (share * ((policy.mode(features) - actions) / scale).square()).sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        return total.detach()

    optimizer.step(error)
    last = float(error())
    optimizer.zero_grad()
    return last


@torch.no_grad()
def _least_squares(
    policy: FormulaPolicy, features: torch.Tensor, actions: torch.Tensor, weights: torch.Tensor, *, steps: int
) -> float:
    """Fit formulas before they are clipped to the actions that are not; a step that leads up is halved."""
    span = policy.high - policy.low
    inside = (actions > policy.low + _CLIPPED * span) & (actions < policy.high - _CLIPPED * span)
    share = weights[:, None] * inside / (span / 2).square()
    share = share / weights.sum() / actions.shape[1]
    raw, root = policy.raw.detach().clone(), share.sqrt()

    def residual(parameters: torch.Tensor) -> torch.Tensor:
        return root * (policy.asked(features, parameters) - actions)

    error = float(residual(raw).square().sum())
    for _ in range(steps):
        slopes = (root[:, :, None] * policy.slopes(features, raw)).flatten(0, 1)
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
