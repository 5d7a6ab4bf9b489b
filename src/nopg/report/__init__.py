"""A first look at a dataset before training, and what a trained policy will do before it runs."""

from nopg.report._clock import Clock
from nopg.report._columns import Column
from nopg.report._coverage import Coverage
from nopg.report._describe import Description, describe
from nopg.report._episodes import Episodes
from nopg.report._findings import Finding, Grade
from nopg.report._influential import InfluentialPart
from nopg.report._policy_report import PolicyReport, policy_report, report_files, write_report
from nopg.report._sensitivity import Variation
from nopg.report._stuck import Run

__all__ = [
    "Clock",
    "Column",
    "Coverage",
    "Description",
    "Episodes",
    "Finding",
    "Grade",
    "InfluentialPart",
    "PolicyReport",
    "Run",
    "Variation",
    "describe",
    "policy_report",
    "report_files",
    "write_report",
]
