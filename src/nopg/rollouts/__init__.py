"""Running controllers in environments, and collecting datasets from them."""

from nopg.rollouts._agents import AgentWithDensity, MixtureOfGaussians, RandomAgent, UniformAgent
from nopg.rollouts._collect import FrameSkip, collect, collect_grid, collect_uniform
from nopg.rollouts._operator import ClumsyOperator, synthetic_demonstrations
from nopg.rollouts._record import record
from nopg.rollouts._simulate import ControlLaw, Trajectories, discounted_sums, simulate
from nopg.rollouts._step_test import StepTest

__all__ = [
    "AgentWithDensity",
    "ClumsyOperator",
    "ControlLaw",
    "FrameSkip",
    "MixtureOfGaussians",
    "RandomAgent",
    "StepTest",
    "Trajectories",
    "UniformAgent",
    "collect",
    "collect_grid",
    "collect_uniform",
    "discounted_sums",
    "record",
    "simulate",
    "synthetic_demonstrations",
]
