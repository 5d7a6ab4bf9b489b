"""What engineers would do with the same log: imitate it, least squares and LQR, linear MPC, a PI rule."""

from nopg.baselines._by_name import BASELINES, Baseline, baseline
from nopg.baselines._cloning import cloned
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._pi_rule import FirstOrderPlant, PIRule
from nopg.baselines._regulator import LinearQuadraticFit, Regulator

__all__ = [
    "BASELINES",
    "Baseline",
    "FirstOrderPlant",
    "LinearMPC",
    "LinearQuadraticFit",
    "PIRule",
    "Regulator",
    "baseline",
    "cloned",
]
