"""Bellman equations of a policy, their solutions, certificates and policy gradients."""

from nopg.bellman._equation import BellmanEquation
from nopg.bellman._estimate import GradientEstimate
from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._nopg import NOPG, solution_gradient
from nopg.bellman._paper_problem import PaperProblem
from nopg.bellman._problem import Certificate, ControlProblem, Solution

__all__ = [
    "NOPG",
    "BellmanEquation",
    "Certificate",
    "ControlProblem",
    "GradientEstimate",
    "MultistepProblem",
    "PaperProblem",
    "Solution",
    "solution_gradient",
]
