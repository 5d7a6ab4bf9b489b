"""The nonparametric Bellman equation, its solution and its certificate."""

from nopg.bellman._best_actions import BestActions, action_candidates, best_actions
from nopg.bellman._equation import BellmanEquation, BellmanSystem, ControlProblem
from nopg.bellman._solution import BellmanSolution, Certificate, StateEstimates

__all__ = [
    "BellmanEquation",
    "BellmanSolution",
    "BellmanSystem",
    "BestActions",
    "Certificate",
    "ControlProblem",
    "StateEstimates",
    "action_candidates",
    "best_actions",
]
