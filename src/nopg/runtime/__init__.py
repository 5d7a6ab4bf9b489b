"""A saved controller where it runs: numpy and safetensors, neither torch nor scipy."""

from nopg.runtime._controller import RuntimeController
from nopg.runtime._guard import MOST_UNKNOWN, Decision, GuardedController
from nopg.runtime._limits import action_limits
from nopg.runtime._loading import load

__all__ = [
    "MOST_UNKNOWN",
    "Decision",
    "GuardedController",
    "RuntimeController",
    "action_limits",
    "load",
]
