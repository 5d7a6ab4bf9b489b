"""The engineers' benchmark: what a log of a plant is worth to those who would try least squares first."""

from collections.abc import Mapping
from types import MappingProxyType

from studies.engineers.plants import DEVELOPMENT_PLANTS, DOUBLE_PENDULUM, MOTION_PLANTS, PROCESS_PLANTS
from studies.engineers.task import Task

__all__ = ["DEVELOPMENT", "REPORT", "TASKS", "Task"]

_TANK, _MOTOR, _ROOM, _BALL, _HOLDER, _STAGE, _BLEND, _POLES = DEVELOPMENT_PLANTS
_COUPLED, _REACTOR, _FOUR_TANKS, _FURNACE, _HEATER, _DRUM = PROCESS_PLANTS
_SERVO, _COIL, _SPLIT_RANGE = MOTION_PLANTS

DEVELOPMENT = (
    Task(_TANK, "pi+dither", 0, 0.97, "easy: one tank", output="level"),
    Task(_MOTOR, "random", 50, 0.97, "easy: dry friction at 50 Hz", output="angle"),
    Task(_ROOM, "pi+dither", 0, 0.98, "strong sensor noise", output="air"),
    Task(_BALL, "pi+dither", 0, 0.97, "unstable, noisy sensors", output="gap"),
    Task(_HOLDER, "pi+dither", 0, 0.98, "steep penalty above a limit", output="volume"),
    Task(_STAGE, "pi+dither", 0, 0.99, "250 Hz, friction", output="place"),
    Task(_BLEND, "pi+dither", 0, 0.98, "two inputs, two outputs"),
    Task(_POLES, "random", 50, 0.97, "unstable, six columns, falls"),
)
"""Defaults and settings of rivals may be chosen on these."""

REPORT = (
    Task(_COUPLED, "pi+dither", 0, 0.98, "coupled levels", output="second_level"),
    Task(_REACTOR, "pi+dither", 0, 0.97, "unstable, noisy sensors", output="temperature"),
    Task(_FOUR_TANKS, "pi+dither", 0, 0.98, "two inputs, two outputs"),
    Task(_SERVO, "pi+dither", 0, 0.99, "500 Hz, Coulomb friction", output="position"),
    Task(_FURNACE, "pi+dither", 0, 0.97, "delay of five samples", output="temperature"),
    Task(_HEATER, "pi+dither", 0, 0.98, "strong sensor noise", output="water"),
    Task(_DRUM, "pi+dither", 0, 0.98, "steep penalty above a limit", output="pressure"),
    Task(_COIL, "random", 250, 0.99, "stiff: .05 s to 33 s", output="body"),
    Task(_SPLIT_RANGE, "random", 250, 0.98, "dead zone, two gains", output="product"),
    Task(DOUBLE_PENDULUM, "random", 50, 0.97, "unstable, MuJoCo"),
)
"""For the report alone."""

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in (*DEVELOPMENT, *REPORT)})
"""All tasks by the name of their plant, development first."""
