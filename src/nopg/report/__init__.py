"""What a trained policy will do before it runs: a page, figures (extra `figures`), a safety case template."""

from nopg.report._assurance import AssuranceCase, assurance_case
from nopg.report._hazards import Hazard, HazardEvidence
from nopg.report._pictures import Picture, result_pictures, save_pictures
from nopg.report._policy_report import PolicyReport, policy_report, write_report

__all__ = [
    "AssuranceCase",
    "Hazard",
    "HazardEvidence",
    "Picture",
    "PolicyReport",
    "assurance_case",
    "policy_report",
    "result_pictures",
    "save_pictures",
    "write_report",
]
