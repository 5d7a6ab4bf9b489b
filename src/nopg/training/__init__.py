"""Training: from transitions to a certified controller."""

from nopg.training._ascent import ascend
from nopg.training._controller import Controller
from nopg.training._optimize import optimize
from nopg.training._reports import Callback, Plateau, ProgressBar, Update
from nopg.training._result import TrainingResult

__all__ = [
    "Callback",
    "Controller",
    "Plateau",
    "ProgressBar",
    "TrainingResult",
    "Update",
    "ascend",
    "optimize",
]
