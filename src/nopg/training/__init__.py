"""Training: from transitions to a certified controller."""

import nopg.paper  # noqa: F401  registers its model
from nopg.training._config import TrainingConfig
from nopg.training._constraints import Constraint, ConstraintResult
from nopg.training._controller import Controller
from nopg.training._optimize import optimize
from nopg.training._reports import Callback, CSVLogger, Update
from nopg.training._result import TrainingResult
from nopg.training._saved import load
from nopg.training._sensitivity import Deviation, GainCurve

__all__ = [
    "CSVLogger",
    "Callback",
    "Constraint",
    "ConstraintResult",
    "Controller",
    "Deviation",
    "GainCurve",
    "TrainingConfig",
    "TrainingResult",
    "Update",
    "load",
    "optimize",
]
