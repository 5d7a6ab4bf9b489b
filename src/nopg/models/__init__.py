"""The model of the plant: local polynomials, their noise, support and rollouts."""

from nopg._typing import RewardFunction
from nopg.models._lag_selection import LagChoice, select_lags
from nopg.models._local_model import ColumnFit, LocalModel
from nopg.models._one_step import Prediction

__all__ = ["ColumnFit", "LagChoice", "LocalModel", "Prediction", "RewardFunction", "select_lags"]
