"""How good a controller is: by running it, by what the data say, where in the states, and over seeds."""

from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._judge import judge, judged_return
from nopg.evaluation._scores import Scores, Summary, summarize
from nopg.evaluation._slice import StateSlice, slice_states
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "Evaluation",
    "Scores",
    "StateMap",
    "StateSlice",
    "Summary",
    "control_law",
    "evaluate",
    "judge",
    "judged_return",
    "map_states",
    "slice_states",
    "summarize",
]
