"""How good a controller is: by running it, by what the data say, where in the states, and over seeds."""

from nopg.evaluation._behavior import LoggedBehavior, LoggedReturns, logged_returns
from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._imagined import FeatureLaw, Imagination, ImaginedPaths, ImaginedPlant
from nopg.evaluation._influence import EquationAnswer, bootstrap_returns, equation_answer, influence
from nopg.evaluation._judge import PolicyLaw, judge, judged_return
from nopg.evaluation._offline import (
    LOGGED,
    Comparison,
    Difference,
    OfflineEvaluation,
    OfflineEvaluator,
    Risk,
    Verdict,
    compare,
    evaluate_offline,
    standard_error,
    verdict_of,
)
from nopg.evaluation._policy_metrics import PolicyMetrics, policy_metrics
from nopg.evaluation._region import Region, region_of
from nopg.evaluation._scores import Scores, Summary, summarize
from nopg.evaluation._slice import StateSlice, slice_states
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "LOGGED",
    "Comparison",
    "Difference",
    "EquationAnswer",
    "Evaluation",
    "FeatureLaw",
    "Imagination",
    "ImaginedPaths",
    "ImaginedPlant",
    "LoggedBehavior",
    "LoggedReturns",
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
    "bootstrap_returns",
    "compare",
    "control_law",
    "equation_answer",
    "evaluate",
    "evaluate_offline",
    "influence",
    "judge",
    "judged_return",
    "logged_returns",
    "map_states",
    "policy_metrics",
    "region_of",
    "slice_states",
    "standard_error",
    "summarize",
    "verdict_of",
]
