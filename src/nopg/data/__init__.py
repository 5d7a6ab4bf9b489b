"""Logged transitions: what a user brings, checked at the door."""

from nopg.data._d3rlpy import to_d3rlpy
from nopg.data._duplicates import duplicate_groups
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions

__all__ = ["Schema", "Transitions", "duplicate_groups", "to_d3rlpy"]
