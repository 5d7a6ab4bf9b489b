"""Policies: deterministic and Gaussian, linear and small networks, behind one sampling interface."""

from nopg.policies._density import Gaussian
from nopg.policies._description import describe_policy
from nopg.policies._deterministic import Deterministic, LinearPolicy, MLPPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy, VarianceDecay
from nopg.policies._networks import ActionRange, Standardizer
from nopg.policies._policy import Policy

__all__ = [
    "ActionRange",
    "Deterministic",
    "Gaussian",
    "GaussianMLPPolicy",
    "GaussianPolicy",
    "LinearPolicy",
    "MLPPolicy",
    "Policy",
    "Standardizer",
    "VarianceDecay",
    "describe_policy",
]
