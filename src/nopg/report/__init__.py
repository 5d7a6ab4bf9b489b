"""What a trained policy will do before it runs, on one page and in pictures (the extra `figures`)."""

from nopg.report._maps import draw_policy, draw_value, draw_visitation
from nopg.report._pictures import Picture, result_figures, result_pictures, save_pictures
from nopg.report._policy_report import PolicyReport, policy_report, write_report
from nopg.report._training_figure import draw_training

__all__ = [
    "Picture",
    "PolicyReport",
    "draw_policy",
    "draw_training",
    "draw_value",
    "draw_visitation",
    "policy_report",
    "result_figures",
    "result_pictures",
    "save_pictures",
    "write_report",
]
