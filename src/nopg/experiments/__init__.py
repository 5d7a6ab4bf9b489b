"""The paper's studies and ours: a frozen configuration in, a record out."""

from nopg.experiments._methods import METHODS, Method
from nopg.experiments._tasks import TASKS, Task
from nopg.experiments._trials import Trial, read_records, run_trial, scores

__all__ = ["METHODS", "TASKS", "Method", "Task", "Trial", "read_records", "run_trial", "scores"]
