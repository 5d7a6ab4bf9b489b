"""What a trained controller will do before it runs: one page, the same as JSON, figures (extra `figures`)."""

from nopg.report._report import PolicyReport, policy_report
from nopg.report._style import Picture, save_pictures

__all__ = ["Picture", "PolicyReport", "policy_report", "save_pictures"]
