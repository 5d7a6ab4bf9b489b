"""Logs that do not fit into memory: one pass over their rows, on any number of processes or machines."""

from nopg.large_logs._files import load_fleet, load_summary, save_summary
from nopg.large_logs._fleet import Fleet, Pool
from nopg.large_logs._summarize import summarize, summarize_fleet
from nopg.models._log_summary import LogSummary

__all__ = [
    "Fleet",
    "LogSummary",
    "Pool",
    "load_fleet",
    "load_summary",
    "save_summary",
    "summarize",
    "summarize_fleet",
]
