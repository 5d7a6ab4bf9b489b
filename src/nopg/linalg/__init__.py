"""Sparse rows, interpolation, and solvers for Λx = b with Λ = I − γP, each solution with a proven bound."""

from nopg.linalg._bicgstab import BiCGSTAB
from nopg.linalg._choice import Auto
from nopg.linalg._dense import DenseLU
from nopg.linalg._fixed_point import FixedPoint
from nopg.linalg._gmres import GMRES
from nopg.linalg._resolvent import Resolvent
from nopg.linalg._solution import Solution
from nopg.linalg._solver import Solver

__all__ = ["GMRES", "Auto", "BiCGSTAB", "DenseLU", "FixedPoint", "Resolvent", "Solution", "Solver"]
