"""Kernels and their bandwidths."""

from nopg.kernels._bandwidths import Bandwidths
from nopg.kernels._gaussian import GaussianKernel

__all__ = ["Bandwidths", "GaussianKernel"]
