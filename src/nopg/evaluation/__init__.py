"""How good a controller is: by running it, by what the data say, where in the states, and over seeds."""

from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._imagined import FeatureLaw, Imagination, ImaginedPaths, ImaginedPlant
from nopg.evaluation._influence import EquationAnswer, bootstrap_returns, equation_answer, influence
from nopg.evaluation._judge import PolicyLaw, judge, judged_return
from nopg.evaluation._scores import Scores, Summary, summarize
from nopg.evaluation._slice import StateSlice, slice_states
from nopg.evaluation._state_map import StateMap, map_states

__all__ = [
    "EquationAnswer",
    "Evaluation",
    "FeatureLaw",
    "Imagination",
    "ImaginedPaths",
    "ImaginedPlant",
    "PolicyLaw",
    "Scores",
    "StateMap",
    "StateSlice",
    "Summary",
    "bootstrap_returns",
    "control_law",
    "equation_answer",
    "evaluate",
    "influence",
    "judge",
    "judged_return",
    "map_states",
    "slice_states",
    "summarize",
]
