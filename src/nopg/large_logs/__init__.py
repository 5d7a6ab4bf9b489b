"""Logs that do not fit into memory: one pass over their rows, on any number of processes or machines."""

from nopg.large_logs._files import load_summary, save_summary
from nopg.large_logs._log import LargeLog, LogPart
from nopg.large_logs._summarize import summarize
from nopg.models._log_summary import LogSummary

__all__ = ["LargeLog", "LogPart", "LogSummary", "load_summary", "save_summary", "summarize"]
