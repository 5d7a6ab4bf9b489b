"""What the paper is compared with and users are not: DDPG on a log and online, estimators of gradients."""

from studies.baselines._ddpg import Snapshot, train_offline_ddpg, train_online_ddpg
from studies.baselines._dpg import DPG
from studies.baselines._pwis import PWIS, LoggedEpisodes

__all__ = ["DPG", "PWIS", "LoggedEpisodes", "Snapshot", "train_offline_ddpg", "train_online_ddpg"]
