"""The methods we compare with, from the libraries that keep them; nothing of them is written here."""

from nopg.baselines._fitted_q import FittedQ, fitted_q_evaluation
from nopg.baselines._offline import OFFLINE_METHODS, OfflineMethod, train_offline
from nopg.baselines._offline_returns import importance_sampling_return, resampled_return
from nopg.baselines._online import train_online_ddpg
from nopg.baselines._snapshot import Snapshot

__all__ = [
    "OFFLINE_METHODS",
    "FittedQ",
    "OfflineMethod",
    "Snapshot",
    "fitted_q_evaluation",
    "importance_sampling_return",
    "resampled_return",
    "train_offline",
    "train_online_ddpg",
]
