"""Supervised fit of a policy to actions."""

from __future__ import annotations

import torch

from nopg.policies._policy import Policy, trainable

__all__ = ["imitate"]

_HISTORY = 20


def imitate(
    policy: Policy, features: torch.Tensor, actions: torch.Tensor, weights: torch.Tensor, *, steps: int = 100
) -> float:
    """Fit the mode of a policy to actions, in place, and return the final mean squared error.

    Errors are in units of half the range of each action; L-BFGS on all examples at once.

    Args:
        policy: Changed in place.
        features: States (m, d_f).
        actions: Target actions, (m, d_a).
        weights: Weights of the states, (m,).
        steps: Largest number of L-BFGS iterations.
    """
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
