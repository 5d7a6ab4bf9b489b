"""The paper's studies and ours: a frozen configuration in, a record out."""

from studies.paper._catalogue import EXPERIMENTS
from studies.paper._demonstrations import read_demonstrations
from studies.paper._experiment import Choice, Experiment, Finding, Measurement, Trial, mode_of
from studies.paper._learning import Curve, LearningStudy
from studies.paper._methods import FAITHFUL, METHODS, Method
from studies.paper._page import page
from studies.paper._run import missing_trials, records_of, run_trial, run_trials
from studies.paper._tasks import TASKS, DemonstrationTask, GridTask, PaperRecipe, RandomTask, Task

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
    "mode_of",
    "page",
    "read_demonstrations",
    "records_of",
    "run_trial",
    "run_trials",
]
