"""Bellman equations of a policy, their solutions, certificates and policy gradients.

The paper's Algorithm 1, in the order to read it: `_paper_problem` and `_paper_terms` (all but the policy),
`_equation` (ε, ε₀, P), `_system` (Λq = b, Λᵀμ = ε₀), `_solution` (Ĵ, V̂, μ̃), `_nopg` (∂Ĵ/∂θ). The modules
`_multistep…` are the equation of the local model.
"""

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
