"""Solvers for Λx = b with Λ = I − γP, each solution with a proven error bound."""

from nopg.solvers._bicgstab import BiCGSTAB
from nopg.solvers._choice import Auto, solver_by_name
from nopg.solvers._dense import DenseLU
from nopg.solvers._fixed_point import FixedPoint
from nopg.solvers._gmres import GMRES
from nopg.solvers._resolvent import Preconditioner, Resolvent, SubstochasticOperator
from nopg.solvers._solution import Solution
from nopg.solvers._solver import CALL, Solver
from nopg.solvers._space import VectorSpace

__all__ = [
    "CALL",
    "GMRES",
    "Auto",
    "BiCGSTAB",
    "DenseLU",
    "FixedPoint",
    "Preconditioner",
    "Resolvent",
    "Solution",
    "Solver",
    "SubstochasticOperator",
    "VectorSpace",
    "solver_by_name",
]
