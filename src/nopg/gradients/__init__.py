"""Rival gradient estimators, one per file; that of the paper is `nopg.bellman.NOPG`."""

from nopg.gradients._dpg import DPG, QuadraticForm
from nopg.gradients._exact_lqr import ExactLQR
from nopg.gradients._pwis import PWIS, Weights

__all__ = ["DPG", "PWIS", "ExactLQR", "QuadraticForm", "Weights"]
