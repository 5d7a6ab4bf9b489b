"""Solvers for Λx = b with Λ = I − γP, each solution with a proven error bound."""

from nopg.solvers._bicgstab import BiCGSTAB
from nopg.solvers._choice import Auto, solver_by_name
from nopg.solvers._dense import DenseLU
from nopg.solvers._fixed_point import FixedPoint
from nopg.solvers._resolvent import Resolvent, SubstochasticOperator
from nopg.solvers._solution import Solution
from nopg.solvers._solver import Solver
from nopg.solvers._space import LocalSpace, VectorSpace

__all__ = [
    "Auto",
    "BiCGSTAB",
    "DenseLU",
    "FixedPoint",
    "LocalSpace",
    "Resolvent",
    "Solution",
    "Solver",
    "SubstochasticOperator",
    "VectorSpace",
    "solver_by_name",
]
