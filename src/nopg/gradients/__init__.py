"""Gradient estimators, one per file."""

from nopg.gradients._estimate import GradientEstimate, GradientEstimator, Resumable
from nopg.gradients._nopg import NOPG, solution_gradient

__all__ = ["NOPG", "GradientEstimate", "GradientEstimator", "Resumable", "solution_gradient"]
