"""Models of the plant: local polynomials with rollouts, and the paper's with its transition operator."""

from nopg.models._candidates import CandidateGraph, CandidateSearch
from nopg.models._charts import ChartShape, farthest_points
from nopg.models._footprint import Footprint, memory_budget
from nopg.models._integration import IntegrationRule, KernelMean, MonteCarlo
from nopg.models._local_model import ColumnFit, LocalModel, Prediction, RewardFunction
from nopg.models._model import Backup, Queries, TransitionModel
from nopg.models._paper_model import PaperModel
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS, check_prior_mass
from nopg.models._regression_rows import InputSpace, RegressionRows, difference
from nopg.models._rollout import Act, Rollout, along, leaving_share, rollout
from nopg.models._sharing import SharedRows, gather_initial_states, is_sharded, share_rows, whole_data
from nopg.models._state_support import CondensedSupport, StateSupport
from nopg.models._termination import TerminationRule

__all__ = [
    "DEFAULT_PRIOR_MASS",
    "Act",
    "Backup",
    "CandidateGraph",
    "CandidateSearch",
    "ChartShape",
    "ColumnFit",
    "CondensedSupport",
    "Footprint",
    "InputSpace",
    "IntegrationRule",
    "KernelMean",
    "LocalModel",
    "MonteCarlo",
    "PaperModel",
    "Prediction",
    "Queries",
    "RegressionRows",
    "RewardFunction",
    "Rollout",
    "SharedRows",
    "StateSupport",
    "TerminationRule",
    "TransitionModel",
    "along",
    "check_prior_mass",
    "difference",
    "farthest_points",
    "gather_initial_states",
    "is_sharded",
    "leaving_share",
    "memory_budget",
    "rollout",
    "share_rows",
    "whole_data",
]
