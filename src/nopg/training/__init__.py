"""Training: from transitions to a certified controller."""

from nopg.training._config import CheckpointConfig, TrainingConfig
from nopg.training._constraint import Constraint, ConstraintResult
from nopg.training._controller import Controller
from nopg.training._deviations import Deviation, DeviationTable
from nopg.training._gains import GainCurve, GainTable
from nopg.training._loading import load
from nopg.training._loggers import CSVLogger, JSONLinesLogger, TensorBoardLogger
from nopg.training._optimize import optimize
from nopg.training._reports import Callback, Plateau, ProgressBar, Update
from nopg.training._result import TrainingResult
from nopg.training._starts import StartSupport
from nopg.training._train import train

__all__ = [
    "CSVLogger",
    "Callback",
    "CheckpointConfig",
    "Constraint",
    "ConstraintResult",
    "Controller",
    "Deviation",
    "DeviationTable",
    "GainCurve",
    "GainTable",
    "JSONLinesLogger",
    "Plateau",
    "ProgressBar",
    "StartSupport",
    "TensorBoardLogger",
    "TrainingConfig",
    "TrainingResult",
    "Update",
    "load",
    "optimize",
    "train",
]
