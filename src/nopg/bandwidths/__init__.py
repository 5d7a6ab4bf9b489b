"""Bandwidths from the data."""

from nopg.bandwidths._cross_validation import paper_bandwidths, released_bandwidths
from nopg.bandwidths._leave_one_out import LeaveOneOut, leave_one_out, nearest_held_out
from nopg.bandwidths._select import select_bandwidths
from nopg.bandwidths._spacing import level_spacing, step_length
from nopg.bandwidths._table import RegressionTable

__all__ = [
    "LeaveOneOut",
    "RegressionTable",
    "leave_one_out",
    "level_spacing",
    "nearest_held_out",
    "paper_bandwidths",
    "released_bandwidths",
    "select_bandwidths",
    "step_length",
]
