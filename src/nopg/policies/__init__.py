"""Policies: deterministic and Gaussian, linear, formulas and small networks, behind one interface."""

from nopg.policies._deterministic import DeviationPolicy, LinearPolicy, MLPPolicy
from nopg.policies._formula import FormulaPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy
from nopg.policies._networks import ActionRange, Standardizer
from nopg.policies._policy import Deterministic, Policy, check_policy
from nopg.policies._quantized import QuantizedPolicy
from nopg.policies._structures import ControlStructure, Formulas

__all__ = [
    "ActionRange",
    "ControlStructure",
    "Deterministic",
    "DeviationPolicy",
    "FormulaPolicy",
    "Formulas",
    "GaussianMLPPolicy",
    "GaussianPolicy",
    "LinearPolicy",
    "MLPPolicy",
    "Policy",
    "QuantizedPolicy",
    "Standardizer",
    "check_policy",
]
