"""Offline reinforcement learning in closed form.

`optimize` goes from logged transitions to a certified controller; the rooms below it are public too:
`nopg.data`, `nopg.bandwidths`, `nopg.graph`, `nopg.bellman`, `nopg.gradients`, `nopg.solvers`,
`nopg.policies`, `nopg.training`, and for studies `nopg.environments`, `nopg.rollouts`, `nopg.theory`.
"""

from nopg._version import __version__
from nopg.bandwidths import paper_bandwidths, select_bandwidths
from nopg.data import Schema, Transitions
from nopg.kernels import Bandwidths
from nopg.training import TrainingResult, optimize

__all__ = [
    "Bandwidths",
    "Schema",
    "TrainingResult",
    "Transitions",
    "__version__",
    "optimize",
    "paper_bandwidths",
    "select_bandwidths",
]
