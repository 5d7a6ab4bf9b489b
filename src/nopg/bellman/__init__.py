"""Bellman equations of a policy, their solutions, certificates and policy gradients."""

from nopg.bellman._equation import BellmanEquation, BellmanSystem, PaperProblem
from nopg.bellman._estimate import Clock, GradientEstimate, GradientEstimator, Resumable
from nopg.bellman._held_actions import HeldActions, action_candidates, best_held_actions
from nopg.bellman._multistep import INFLATION, LONGEST_HORIZON, Charge, MultistepProblem, MultistepSolution
from nopg.bellman._nodes import Interpolation, Nodes
from nopg.bellman._nopg import NOPG, solution_gradient
from nopg.bellman._problem import Certificate, ControlProblem, Solution, StateEstimates
from nopg.bellman._solution import BellmanSolution

__all__ = [
    "INFLATION",
    "LONGEST_HORIZON",
    "NOPG",
    "BellmanEquation",
    "BellmanSolution",
    "BellmanSystem",
    "Certificate",
    "Charge",
    "Clock",
    "ControlProblem",
    "GradientEstimate",
    "GradientEstimator",
    "HeldActions",
    "Interpolation",
    "MultistepProblem",
    "MultistepSolution",
    "Nodes",
    "PaperProblem",
    "Resumable",
    "Solution",
    "StateEstimates",
    "action_candidates",
    "best_held_actions",
    "solution_gradient",
]
