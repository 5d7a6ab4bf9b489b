"""The methods we compare with: from the libraries that keep them, and estimators of gradients."""

from studies.baselines._dpg import DPG, QuadraticForm
from studies.baselines._exact_lqr import ExactLQR
from studies.baselines._fitted_q import FittedQ, fitted_q_evaluation
from studies.baselines._logged_episodes import LoggedEpisodes
from studies.baselines._offline import OFFLINE_METHODS, OfflineMethod, train_offline
from studies.baselines._online import train_online_ddpg
from studies.baselines._pwis import PWIS, Weights
from studies.baselines._snapshot import Snapshot

__all__ = [
    "DPG",
    "OFFLINE_METHODS",
    "PWIS",
    "ExactLQR",
    "FittedQ",
    "LoggedEpisodes",
    "OfflineMethod",
    "QuadraticForm",
    "Snapshot",
    "Weights",
    "fitted_q_evaluation",
    "train_offline",
    "train_online_ddpg",
]
