"""Gaussian kernels, their bandwidths, and bandwidths from data."""

from nopg.kernels._bandwidths import Bandwidths
from nopg.kernels._cross_validation import paper_bandwidths, released_bandwidths
from nopg.kernels._gaussian import GaussianKernel
from nopg.kernels._select import select_bandwidths

__all__ = ["Bandwidths", "GaussianKernel", "paper_bandwidths", "released_bandwidths", "select_bandwidths"]
