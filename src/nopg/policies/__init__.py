"""Policies: deterministic and Gaussian, linear and small networks, behind one sampling interface."""

from nopg.policies._deterministic import Deterministic, LinearPolicy, MLPPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy, VarianceDecay
from nopg.policies._networks import ActionRange, Standardizer
from nopg.policies._policy import Policy
from nopg.policies._quantized import QuantizedPolicy

__all__ = [
    "ActionRange",
    "Deterministic",
    "GaussianMLPPolicy",
    "GaussianPolicy",
    "LinearPolicy",
    "MLPPolicy",
    "Policy",
    "QuantizedPolicy",
    "Standardizer",
    "VarianceDecay",
]
