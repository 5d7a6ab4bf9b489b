"""Evaluate controllers from data alone."""

from nopg.evaluation._assessment import Assessment, Errors, Gain, Verdict
from nopg.evaluation._comparison import Comparison, choose
from nopg.evaluation._control_law import control_law
from nopg.evaluation._offline import OfflineEvaluator, compare, evaluate_offline
from nopg.evaluation._other_log import LogEvaluation, evaluate_on_log, match_log
from nopg.evaluation._risk import Risk

__all__ = [
    "Assessment",
    "Comparison",
    "Errors",
    "Gain",
    "LogEvaluation",
    "OfflineEvaluator",
    "Risk",
    "Verdict",
    "choose",
    "compare",
    "control_law",
    "evaluate_offline",
    "evaluate_on_log",
    "match_log",
]
