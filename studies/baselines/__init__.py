"""What the paper is compared with and users are not: online DDPG, estimators of gradients."""

from studies.baselines._dpg import DPG
from studies.baselines._online import train_online_ddpg
from studies.baselines._pwis import PWIS, LoggedEpisodes

__all__ = ["DPG", "PWIS", "LoggedEpisodes", "train_online_ddpg"]
