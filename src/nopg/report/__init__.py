"""What a trained policy will do before it runs: a page, and figures (extra `figures`)."""

from nopg.report._pictures import Picture, result_pictures, save_pictures
from nopg.report._policy_report import PolicyReport, policy_report, write_report

__all__ = ["Picture", "PolicyReport", "policy_report", "result_pictures", "save_pictures", "write_report"]
