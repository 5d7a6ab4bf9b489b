"""Planning on the local model: a receding-horizon controller."""

from nopg.planning._planner import Planner, PlannerConfig, PlanningController

__all__ = ["Planner", "PlannerConfig", "PlanningController"]
