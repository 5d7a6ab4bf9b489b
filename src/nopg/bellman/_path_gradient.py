"""The derivative of what paths return by the parameters of the policy that made them."""

from __future__ import annotations

import numpy as np
import torch

from nopg.bellman._multistep_terms import MultistepTerms
from nopg.bellman._nodes import Interpolation
from nopg.models._rollout import Rollout
from nopg.policies import Policy
from nopg.policies._policy import trainable

__all__ = ["path_gradient"]


def path_gradient(
    problem: MultistepTerms,
    policy: Policy,
    path: Rollout,
    *,
    ends: Interpolation,
    values: torch.Tensor,
    weights: torch.Tensor,
    noise: torch.Tensor | None,
) -> tuple[torch.Tensor, ...]:
    """Return the derivative of weighted returns of paths by the policy's trainable parameters.

    The chain rule runs backwards through the steps in closed form; the policy is differentiated once, at all
    states of all paths. Values at the ends of the paths are held fixed.

    Args:
        problem: Model, discount and value of leaving the data.
        policy: It made the paths.
        path: N paths with recorded slopes.
        ends: Interpolation at the last states.
        values: Of the nodes of this interpolation, for each path, shape (N, k).
        weights: Of the paths, shape (N,).
        noise: That the policy drew its actions with, shape (T, N, d_a); None for its mode.
    """
    gamma, v = problem.discount, problem.unknown_value
    T, N, d_s = path.states[:-1].shape
    states = torch.as_tensor(path.measured[:-1].reshape(T * N, d_s)).requires_grad_()
    features = problem.model.data.schema.encode(states)
    if noise is None:
        actions = policy.mode(features)
    else:
        actions = policy.actions(features, noise[:T].reshape(1, T * N, -1))[0]
    by_state = np.stack(
        [
            torch.autograd.grad(column.sum(), states, retain_graph=True)[0].numpy().reshape(T, N, d_s)
            for column in actions.unbind(dim=1)
        ],
        axis=1,
    ).transpose(0, 1, 3, 2)
    G, alive, _ = path.value(gamma, v, ends.values(values).numpy())
    slopes = path.action_slopes(gamma, v, G, tail_slope=ends.slopes(values).T.numpy(), by_state=by_state)
    weight = gamma ** np.arange(T)[:, None] * alive[:-1] * weights.numpy()
    cotangent = torch.as_tensor((weight[:, :, None] * slopes).reshape(T * N, -1))
    return torch.autograd.grad(
        actions, trainable(policy), cotangent, allow_unused=True, materialize_grads=True
    )
