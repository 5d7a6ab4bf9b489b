"""Candidates, responsibilities and the transition operator."""

from nopg.graph._candidates import CandidateGraph, CandidateSearch
from nopg.graph._end_rule import EndRule
from nopg.graph._footprint import Footprint, memory_budget
from nopg.graph._integration import IntegrationRule, KernelMean, MonteCarlo
from nopg.graph._local_dynamics import LocalDynamics, PathStep, raw_bounds, walk, within_bounds
from nopg.graph._local_fit import FitShape, best_shape, moved, raw_states
from nopg.graph._local_linear import LocalLinear
from nopg.graph._local_regression import LocalRegression, RegressionShape, StepEstimate, Subsets
from nopg.graph._model import Backup, Queries, TransitionModel
from nopg.graph._nadaraya_watson import NadarayaWatson
from nopg.graph._operator import TransitionOperator
from nopg.graph._prediction import (
    LocalLinearPredictor,
    ModelComparison,
    NadarayaWatsonPredictor,
    Predictor,
    compare_models,
    rolled_out_errors,
)
from nopg.graph._prior_mass import DEFAULT_PRIOR_MASS, check_prior_mass
from nopg.graph._rows import RowPattern, SparseRows
from nopg.graph._samples import SampleIndex
from nopg.graph._sharing import SharedRows, holds_a_part, share_rows, whole_data, whole_starts
from nopg.graph._state_support import CondensedSupport, StateSupport

__all__ = [
    "DEFAULT_PRIOR_MASS",
    "Backup",
    "CandidateGraph",
    "CandidateSearch",
    "CondensedSupport",
    "EndRule",
    "FitShape",
    "Footprint",
    "IntegrationRule",
    "KernelMean",
    "LocalDynamics",
    "LocalLinear",
    "LocalLinearPredictor",
    "LocalRegression",
    "ModelComparison",
    "MonteCarlo",
    "NadarayaWatson",
    "NadarayaWatsonPredictor",
    "PathStep",
    "Predictor",
    "Queries",
    "RegressionShape",
    "RowPattern",
    "SampleIndex",
    "SharedRows",
    "SparseRows",
    "StateSupport",
    "StepEstimate",
    "Subsets",
    "TransitionModel",
    "TransitionOperator",
    "best_shape",
    "check_prior_mass",
    "compare_models",
    "holds_a_part",
    "memory_budget",
    "moved",
    "raw_bounds",
    "raw_states",
    "rolled_out_errors",
    "share_rows",
    "walk",
    "whole_data",
    "whole_starts",
    "within_bounds",
]
