"""Offline reinforcement learning in closed form.

`describe` takes a first look at logged transitions, `optimize` goes from them to a certified controller. The
rooms below are public too: `nopg.data`, `nopg.bandwidths`, `nopg.graph`, `nopg.bellman`, `nopg.gradients`,
`nopg.solvers`, `nopg.policies`, `nopg.training`, `nopg.evaluation`, `nopg.report`, and for studies
`nopg.environments`, `nopg.rollouts`, `nopg.baselines`, `nopg.experiments`, `nopg.records`, `nopg.figures` and
`nopg.theory`.
"""

from nopg._version import __version__
from nopg.bandwidths import paper_bandwidths, select_bandwidths
from nopg.data import Schema, Transitions
from nopg.kernels import Bandwidths
from nopg.report import describe
from nopg.training import TrainingResult, optimize

__all__ = [
    "Bandwidths",
    "Schema",
    "TrainingResult",
    "Transitions",
    "__version__",
    "describe",
    "optimize",
    "paper_bandwidths",
    "select_bandwidths",
]
