"""Gradient estimators, one per file."""

from nopg.gradients._dpg import DPG, QuadraticForm
from nopg.gradients._estimate import GradientEstimate, GradientEstimator, Resumable
from nopg.gradients._exact_lqr import ExactLQR
from nopg.gradients._nopg import NOPG, solution_gradient
from nopg.gradients._pwis import PWIS, Weights

__all__ = [
    "DPG",
    "NOPG",
    "PWIS",
    "ExactLQR",
    "GradientEstimate",
    "GradientEstimator",
    "QuadraticForm",
    "Resumable",
    "Weights",
    "solution_gradient",
]
