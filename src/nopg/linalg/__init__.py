"""Sparse rows, interpolation, and solvers for Λx = b with Λ = I − γP, each solution with a proven bound."""

from nopg.linalg._bicgstab import BiCGSTAB
from nopg.linalg._choice import Auto, solver_by_name
from nopg.linalg._dense import DenseLU
from nopg.linalg._fixed_point import FixedPoint
from nopg.linalg._gmres import GMRES
from nopg.linalg._halo import Halo, localize
from nopg.linalg._interpolation import centered_weights
from nopg.linalg._multilevel import CellHierarchy
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._resolvent import Preconditioner, Resolvent, SubstochasticOperator
from nopg.linalg._rows import RowPattern, SparseRows
from nopg.linalg._solution import Solution
from nopg.linalg._solver import CALL, Solver
from nopg.linalg._space import VectorSpace

__all__ = [
    "CALL",
    "GMRES",
    "Auto",
    "BiCGSTAB",
    "CellHierarchy",
    "DenseLU",
    "FixedPoint",
    "Halo",
    "Preconditioner",
    "Resolvent",
    "RowPattern",
    "Solution",
    "Solver",
    "SparseRows",
    "SubstochasticOperator",
    "TransitionOperator",
    "VectorSpace",
    "centered_weights",
    "localize",
    "solver_by_name",
]
