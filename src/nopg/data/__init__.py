"""Logged transitions: what a user brings, checked at the door."""

from nopg.data._duplicates import duplicate_groups
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions
from nopg.data._validation import check_discount

__all__ = ["Schema", "Transitions", "check_discount", "duplicate_groups"]
