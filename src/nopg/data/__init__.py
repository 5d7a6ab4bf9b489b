"""Logged transitions: what a user brings, validated on entry."""

from nopg.data._chains import chains, episode_rows
from nopg.data._d3rlpy import to_d3rlpy
from nopg.data._duplicates import duplicate_groups
from nopg.data._held_out import canonical_order, held_out_groups, spread_rows
from nopg.data._logged_episodes import LoggedEpisodes
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions

__all__ = [
    "LoggedEpisodes",
    "Schema",
    "Transitions",
    "canonical_order",
    "chains",
    "duplicate_groups",
    "episode_rows",
    "held_out_groups",
    "spread_rows",
    "to_d3rlpy",
]
