"""Fit a policy to actions."""

from __future__ import annotations

import math

import torch

from nopg.policies._policy import Policy, trainable

__all__ = ["imitate"]

_LEAST_STATES_PER_STEP, _MOST_STATES_PER_STEP = 256, 2_048


def imitate(
    policy: Policy,
    features: torch.Tensor,
    actions: torch.Tensor,
    weights: torch.Tensor,
    *,
    rng: torch.Generator,
    steps: int = 2_000,
    learning_rate: float = 1e-2,
) -> float:
    """Bring the policy's mode near actions, in place, and return the last mean squared error.

    Errors are in units of the spread of each action; Adam, its learning rate falling to 0. It computes where
    the policy is.

    Args:
        policy: Changed in place.
        features: States (m, d_f).
        actions: What to do there, (m, d_a).
        weights: How much each state counts, (m,).
        rng: For the minibatches.
        steps: Of Adam.
        learning_rate: The first.
    """
    parameters = trainable(policy)
    dtype, device = parameters[0].dtype, parameters[0].device
    features, actions, weights = features.to(device), actions.to(device), weights.to(device)
    scale = (actions.amax(dim=0) - actions.amin(dim=0)).clamp(min=1e-12).to(dtype) / 2
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    error = actions.new_zeros(())
    cumulative = weights.double().cumsum(0)
    batch = min(_MOST_STATES_PER_STEP, max(_LEAST_STATES_PER_STEP, len(features) // 2))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
        drawn = torch.rand(batch, generator=rng, dtype=torch.float64, device=rng.device)
        rows = torch.searchsorted(cumulative, drawn.to(device) * cumulative[-1]).clamp(max=len(weights) - 1)
        wrong = (policy.mode(features[rows].to(dtype)) - actions[rows].to(dtype)) / scale
        error = wrong.square().mean()
        gradients = torch.autograd.grad(error, parameters, allow_unused=True)  # a mode has no variance
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    optimizer.zero_grad()
    return float(error.detach())
