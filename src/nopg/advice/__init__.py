"""Advise experiments: what to run on the plant so that a policy can be judged."""

from nopg.advice._advise import advise
from nopg.advice._experiments import Advice, Experiment

__all__ = ["Advice", "Experiment", "advise"]
