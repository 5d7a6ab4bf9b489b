"""The multi-step Bellman equation on the local model, its solutions and policy gradients."""

from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._problem import Certificate, ControlProblem, GradientEstimate, Solution

__all__ = ["Certificate", "ControlProblem", "GradientEstimate", "MultistepProblem", "Solution"]
