"""Models of the plant: local polynomials with rollouts, and the paper's with its transition operator."""

from nopg.models._column_fit import ColumnFit
from nopg.models._integration import IntegrationRule, MonteCarlo
from nopg.models._lag_selection import LagChoice, select_lags
from nopg.models._local_model import LocalModel
from nopg.models._model import RewardFunction, TransitionModel
from nopg.models._one_step import Prediction
from nopg.models._paper_model import PaperModel

__all__ = [
    "ColumnFit",
    "IntegrationRule",
    "LagChoice",
    "LocalModel",
    "MonteCarlo",
    "PaperModel",
    "Prediction",
    "RewardFunction",
    "TransitionModel",
    "select_lags",
]
