"""Evaluate controllers: in an environment, from data alone, and over the states."""

from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._interval import Verdict
from nopg.evaluation._offline import OfflineEvaluator, compare, evaluate_offline
from nopg.evaluation._policy_metrics import PolicyMetrics, policy_metrics
from nopg.evaluation._results import Comparison, Difference, OfflineEvaluation
from nopg.evaluation._risk import Risk
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "Comparison",
    "Difference",
    "Evaluation",
    "OfflineEvaluation",
    "OfflineEvaluator",
    "PolicyMetrics",
    "Risk",
    "StateMap",
    "Verdict",
    "compare",
    "control_law",
    "evaluate",
    "evaluate_offline",
    "map_states",
    "policy_metrics",
]
