"""How good a controller is: by running it, by what the data say, where in the states, and over seeds."""

from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._interval import Verdict
from nopg.evaluation._offline import (
    Comparison,
    Difference,
    OfflineEvaluation,
    OfflineEvaluator,
    Risk,
    compare,
    evaluate_offline,
)
from nopg.evaluation._policy_metrics import PolicyMetrics, policy_metrics
from nopg.evaluation._scores import Scores
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "Comparison",
    "Difference",
    "Evaluation",
    "OfflineEvaluation",
    "OfflineEvaluator",
    "PolicyMetrics",
    "Risk",
    "Scores",
    "StateMap",
    "Verdict",
    "compare",
    "control_law",
    "evaluate",
    "evaluate_offline",
    "map_states",
    "policy_metrics",
]
