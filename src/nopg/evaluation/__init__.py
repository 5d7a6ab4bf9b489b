"""How good a controller is: by running it, by what the data say, and over seeds."""

from nopg.evaluation._control_law import control_law
from nopg.evaluation._evaluate import Evaluation, evaluate
from nopg.evaluation._judge import judge, judged_return
from nopg.evaluation._scores import Scores, Summary, summarize

__all__ = [
    "Evaluation",
    "Scores",
    "Summary",
    "control_law",
    "evaluate",
    "judge",
    "judged_return",
    "summarize",
]
