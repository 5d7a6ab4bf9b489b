"""Candidates, responsibilities and the transition operator."""

from nopg.graph._candidates import CandidateGraph, CandidateSearch
from nopg.graph._integration import IntegrationRule, KernelMean, MonteCarlo
from nopg.graph._local_linear import LocalLinear
from nopg.graph._model import Backup, Queries, TransitionModel
from nopg.graph._nadaraya_watson import NadarayaWatson
from nopg.graph._operator import TransitionOperator
from nopg.graph._rows import RowPattern, SparseRows

__all__ = [
    "Backup",
    "CandidateGraph",
    "CandidateSearch",
    "IntegrationRule",
    "KernelMean",
    "LocalLinear",
    "MonteCarlo",
    "NadarayaWatson",
    "Queries",
    "RowPattern",
    "SparseRows",
    "TransitionModel",
    "TransitionOperator",
]
