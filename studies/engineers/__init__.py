"""The engineers' benchmark: what a log of a plant is worth to those who would try least squares first."""

from studies.engineers.study import ENGINEERS

__all__ = ["ENGINEERS"]
