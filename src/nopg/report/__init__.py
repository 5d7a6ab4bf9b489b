"""What a trained policy will do before it runs, on one page."""

from nopg.report._influential import InfluentialPart
from nopg.report._policy_report import PolicyReport, policy_report, report_files, write_report
from nopg.report._sensitivity import Variation

__all__ = [
    "InfluentialPart",
    "PolicyReport",
    "Variation",
    "policy_report",
    "report_files",
    "write_report",
]
