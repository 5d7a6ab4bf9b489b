"""How good a controller is: by running it, by what the data say, where in the states, and over seeds."""

from nopg.evaluation._behavior import LoggedBehavior, LoggedReturns, logged_returns
from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._interval import (
    DEVIATIONS,
    Verdict,
    lower_return,
    resolution,
    standard_error,
    verdict_of,
)
from nopg.evaluation._model_paths import ModelPaths, follow
from nopg.evaluation._offline import (
    LOGGED,
    Comparison,
    Difference,
    OfflineEvaluation,
    OfflineEvaluator,
    Risk,
    compare,
    evaluate_offline,
)
from nopg.evaluation._policy_law import PolicyLaw
from nopg.evaluation._policy_metrics import PolicyMetrics, policy_metrics
from nopg.evaluation._region import Region, margin_of, region_of
from nopg.evaluation._scores import Scores, Summary, summarize
from nopg.evaluation._slice import StateSlice, slice_states
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "DEVIATIONS",
    "LOGGED",
    "Comparison",
    "Difference",
    "Evaluation",
    "LoggedBehavior",
    "LoggedReturns",
    "ModelPaths",
    "OfflineEvaluation",
    "OfflineEvaluator",
    "PolicyLaw",
    "PolicyMetrics",
    "Region",
    "Risk",
    "Scores",
    "StateMap",
    "StateSlice",
    "Summary",
    "Verdict",
    "compare",
    "control_law",
    "evaluate",
    "evaluate_offline",
    "follow",
    "logged_returns",
    "lower_return",
    "map_states",
    "margin_of",
    "policy_metrics",
    "region_of",
    "resolution",
    "slice_states",
    "standard_error",
    "summarize",
    "verdict_of",
]
