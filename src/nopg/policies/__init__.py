"""Policies: deterministic and Gaussian, linear and small networks, behind one sampling interface."""

from nopg.policies._deterministic import Deterministic, LinearPolicy, MLPPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy, VarianceDecay
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Policy, policy_actions, policy_gradient

__all__ = [
    "MLP",
    "ActionRange",
    "Deterministic",
    "GaussianMLPPolicy",
    "GaussianPolicy",
    "LinearPolicy",
    "MLPPolicy",
    "Policy",
    "Standardizer",
    "VarianceDecay",
    "policy_actions",
    "policy_gradient",
]
