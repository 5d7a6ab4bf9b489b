"""Logged transitions: what a user brings, validated on entry."""

from nopg.data._d3rlpy import to_d3rlpy
from nopg.data._logged_episodes import LoggedEpisodes
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions

__all__ = [
    "LoggedEpisodes",
    "Schema",
    "Transitions",
    "to_d3rlpy",
]
