"""Candidates, responsibilities and the transition operator."""

from nopg.graph._candidates import CandidateGraph, CandidateSearch
from nopg.graph._footprint import Footprint, memory_budget
from nopg.graph._integration import IntegrationRule, KernelMean, MonteCarlo
from nopg.graph._local_dynamics import LocalDynamics, PathStep, walk
from nopg.graph._local_fit import FitShape, best_shape
from nopg.graph._local_linear import LocalLinear
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
    "FitShape",
    "Footprint",
    "IntegrationRule",
    "KernelMean",
    "LocalDynamics",
    "LocalLinear",
    "LocalLinearPredictor",
    "ModelComparison",
    "MonteCarlo",
    "NadarayaWatson",
    "NadarayaWatsonPredictor",
    "PathStep",
    "Predictor",
    "Queries",
    "RowPattern",
    "SampleIndex",
    "SharedRows",
    "SparseRows",
    "StateSupport",
    "TransitionModel",
    "TransitionOperator",
    "best_shape",
    "check_prior_mass",
    "compare_models",
    "holds_a_part",
    "memory_budget",
    "rolled_out_errors",
    "share_rows",
    "walk",
    "whole_data",
    "whole_starts",
]
