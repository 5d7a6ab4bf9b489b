"""The paper's experiments: plans of runs, and what their records say beside the paper's figures."""

from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import Experiment
from studies.paper._learning import Curve, LearningStudy
from studies.paper._regulator_study import RegulatorStudy
from studies.paper._study import PAPER
from studies.paper._tasks import TASKS, PaperRecipe, Task

__all__ = [
    "EXPERIMENTS",
    "PAPER",
    "TASKS",
    "Curve",
    "Experiment",
    "LearningStudy",
    "PaperRecipe",
    "RegulatorStudy",
    "Task",
]
