"""Advise experiments: what to run on the plant so that a policy can be judged."""

from nopg.advice._advise import advise
from nopg.advice._results import Advice, Experiment

__all__ = ["Advice", "Experiment", "advise"]
