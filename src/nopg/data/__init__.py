"""Logged transitions, validated on entry; `nopg.data.io` reads and writes them."""

from nopg.data._episodes import start_note
from nopg.data._repairs import Repairs
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions

__all__ = [
    "Repairs",
    "Schema",
    "Transitions",
    "start_note",
]
