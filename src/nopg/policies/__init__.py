"""Policies: deterministic and Gaussian, linear and small networks, behind one sampling interface."""

from nopg.policies._density import Gaussian, log_normal
from nopg.policies._description import describe_policy, policy_from
from nopg.policies._deterministic import Deterministic, LinearPolicy, MLPPolicy, Mode
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy, VarianceDecay
from nopg.policies._imitation import imitate
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import (
    ActionTape,
    Policy,
    policy_actions,
    policy_gradient,
    shared_noise,
    trainable,
)

__all__ = [
    "MLP",
    "ActionRange",
    "ActionTape",
    "Deterministic",
    "Gaussian",
    "GaussianMLPPolicy",
    "GaussianPolicy",
    "LinearPolicy",
    "MLPPolicy",
    "Mode",
    "Policy",
    "Standardizer",
    "VarianceDecay",
    "describe_policy",
    "imitate",
    "log_normal",
    "policy_actions",
    "policy_from",
    "policy_gradient",
    "shared_noise",
    "trainable",
]
