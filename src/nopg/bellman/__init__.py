"""The multi-step Bellman equation on the local model, its solutions and policy gradients."""

from nopg.bellman._estimate import GradientEstimate
from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._problem import Certificate, ControlProblem, Solution

__all__ = ["Certificate", "ControlProblem", "GradientEstimate", "MultistepProblem", "Solution"]
