"""What others would do with the same log: LQR, linear MPC, a PI rule, imitation, offline deep learning."""

from nopg.baselines._by_name import BASELINES, baseline, cloned
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._neural import NeuralConfig
from nopg.baselines._regulator import Regulator

__all__ = [
    "BASELINES",
    "LinearMPC",
    "NeuralConfig",
    "Regulator",
    "baseline",
    "cloned",
]
