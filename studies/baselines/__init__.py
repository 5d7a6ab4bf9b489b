"""What the paper is compared with and users are not: online DDPG, estimators of gradients."""

from studies.baselines._dpg import DPG, QuadraticForm
from studies.baselines._exact_lqr import ExactLQR
from studies.baselines._logged_episodes import LoggedEpisodes
from studies.baselines._online import train_online_ddpg
from studies.baselines._pwis import PWIS, Weights

__all__ = [
    "DPG",
    "PWIS",
    "ExactLQR",
    "LoggedEpisodes",
    "QuadraticForm",
    "Weights",
    "train_online_ddpg",
]
