"""Tosatto et al., "A Nonparametric Off-Policy Policy Gradient" (AISTATS 2020), to be read beside the paper.

In the order of reading: `_config` and `_selection` (h), `_model` (ε), `_equation` (Λ, q, μ, Ĵ, V̂, ∂Ĵ/∂θ),
`_solver` (Λq = b and its certificate), `_problem` (Algorithm 1, one update).
"""

from nopg.paper._config import Bandwidths, PaperModelConfig
from nopg.paper._equation import PaperSolution
from nopg.paper._model import PaperModel
from nopg.paper._problem import NOPG, PaperProblem
from nopg.paper._selection import select_bandwidths

__all__ = [
    "NOPG",
    "Bandwidths",
    "PaperModel",
    "PaperModelConfig",
    "PaperProblem",
    "PaperSolution",
    "select_bandwidths",
]
