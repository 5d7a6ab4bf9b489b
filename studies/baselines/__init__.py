"""What the paper is compared with and users are not: DDPG, cloning by d3rlpy, estimators of gradients."""

from studies.baselines._dpg import DPG
from studies.baselines._offline import train_snapshots
from studies.baselines._online import train_online_ddpg
from studies.baselines._pwis import PWIS, LoggedEpisodes
from studies.baselines._snapshot import Snapshot

__all__ = ["DPG", "PWIS", "LoggedEpisodes", "Snapshot", "train_online_ddpg", "train_snapshots"]
