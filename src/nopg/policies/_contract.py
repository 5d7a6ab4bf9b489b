"""What every policy keeps: the test of a class of one's own."""

from __future__ import annotations

import torch

from nopg._checks import require
from nopg._seeding import generator
from nopg.policies._deterministic import Deterministic
from nopg.policies._policy import Policy, trainable

_ROWS = 7


def check_policy(policy: Policy, num_features: int) -> None:
    """Raise an `ArgumentError` unless a policy can be trained and run; call it in the test of your class.

    Args:
        policy: The policy.
        num_features: Number of state features, d_f.

    Example:
        >>> from nopg.policies import LinearPolicy
        >>> check_policy(LinearPolicy([[-0.4, -0.1]]), num_features=2)
    """
    rng = generator(0, "contract of a policy")
    features = torch.randn(_ROWS, num_features, generator=rng, dtype=torch.float64)
    given, noise = features.clone(), policy.noise(_ROWS, rng)
    actions, drawn = policy.mode(features), policy.actions(features, noise)
    shape = (_ROWS, policy.num_actions)
    require(tuple(actions.shape) == shape, f"mode returns shape {tuple(actions.shape)} instead of {shape}")
    whole = (policy.num_action_samples, *shape)
    require(tuple(drawn.shape) == whole, f"actions returns shape {tuple(drawn.shape)} instead of {whole}")
    require(bool(actions.isfinite().all() and drawn.isfinite().all()), "an action is not finite")
    require(torch.equal(features, given), "mode or actions changes its inputs")
    require(torch.equal(policy.mode(features), actions), "mode returns something else in the second call")
    alone = torch.cat([policy.mode(row[None]) for row in features])
    require(torch.allclose(alone, actions, rtol=1e-9, atol=1e-12), "an action depends on the other rows")
    if isinstance(policy, Deterministic):
        require(torch.equal(drawn[0], actions), "the policy is deterministic, but actions is not mode")
    parameters = trainable(policy)
    require(bool(parameters), "no parameter is trainable")
    gradients = torch.autograd.grad(drawn.sum(), parameters, allow_unused=True)
    moved = any(one is not None and bool(one.isfinite().all() and one.any()) for one in gradients)
    require(moved, "the actions have no gradient by the parameters")
