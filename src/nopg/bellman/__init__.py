"""The nonparametric Bellman equation, its solution and its certificate."""

from nopg.bellman._equation import BellmanEquation, ControlProblem
from nopg.bellman._solution import BellmanSolution, Certificate

__all__ = ["BellmanEquation", "BellmanSolution", "Certificate", "ControlProblem"]
