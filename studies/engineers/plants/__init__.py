"""The plants of the benchmark; their constants were fixed before any method ran on them."""

from studies.engineers.plants.development import DEVELOPMENT_PLANTS
from studies.engineers.plants.double_pendulum import DOUBLE_PENDULUM
from studies.engineers.plants.motion import MOTION_PLANTS
from studies.engineers.plants.process import PROCESS_PLANTS

__all__ = ["DEVELOPMENT_PLANTS", "DOUBLE_PENDULUM", "MOTION_PLANTS", "PROCESS_PLANTS"]
