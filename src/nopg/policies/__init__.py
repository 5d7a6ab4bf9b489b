"""Policies: deterministic and Gaussian, linear, formulas and small networks, behind one interface."""

from nopg.policies._deterministic import DeviationPolicy, LinearPolicy, MLPPolicy, QuantizedPolicy
from nopg.policies._formula import ControlStructure, FormulaPolicy, Formulas
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy
from nopg.policies._policy import Deterministic, Policy, check_policy

__all__ = [
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
    "check_policy",
]
