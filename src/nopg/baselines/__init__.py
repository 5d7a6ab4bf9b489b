"""The methods we compare with: from the libraries that keep them, and estimators of gradients and returns."""

from nopg.baselines._dpg import DPG, QuadraticForm
from nopg.baselines._exact_lqr import ExactLQR
from nopg.baselines._fitted_q import FittedQ, fitted_q_evaluation
from nopg.baselines._offline import OFFLINE_METHODS, OfflineMethod, train_offline
from nopg.baselines._offline_returns import importance_sampling_return, resampled_return
from nopg.baselines._online import train_online_ddpg
from nopg.baselines._pwis import PWIS, Weights
from nopg.baselines._snapshot import Snapshot

__all__ = [
    "DPG",
    "OFFLINE_METHODS",
    "PWIS",
    "ExactLQR",
    "FittedQ",
    "OfflineMethod",
    "QuadraticForm",
    "Snapshot",
    "Weights",
    "fitted_q_evaluation",
    "importance_sampling_return",
    "resampled_return",
    "train_offline",
    "train_online_ddpg",
]
