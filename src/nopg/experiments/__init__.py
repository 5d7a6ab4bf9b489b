"""The paper's studies and ours: a frozen configuration in, a record out."""

from nopg.experiments._catalogue import EXPERIMENTS
from nopg.experiments._demonstrations import read_demonstrations
from nopg.experiments._experiment import Choice, Experiment, Finding, Measurement, Trial
from nopg.experiments._learning import Curve, LearningStudy
from nopg.experiments._methods import FAITHFUL, METHODS, Method
from nopg.experiments._page import page
from nopg.experiments._run import missing_trials, run_trial, run_trials
from nopg.experiments._tasks import TASKS, DemonstrationTask, GridTask, PaperRecipe, RandomTask, Task

__all__ = [
    "EXPERIMENTS",
    "FAITHFUL",
    "METHODS",
    "TASKS",
    "Choice",
    "Curve",
    "DemonstrationTask",
    "Experiment",
    "Finding",
    "GridTask",
    "LearningStudy",
    "Measurement",
    "Method",
    "PaperRecipe",
    "RandomTask",
    "Task",
    "Trial",
    "missing_trials",
    "page",
    "read_demonstrations",
    "run_trial",
    "run_trials",
]
