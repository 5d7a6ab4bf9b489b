"""Logs as plants write them: moving set points, delays, hidden velocities; and controllers from them."""

from collections.abc import Mapping
from types import MappingProxyType

from studies.logs.development import DELAY_LINE, LEVEL_TANK
from studies.logs.heated_tank import HEATED_TANK
from studies.logs.hidden import HIDDEN_CART_POLE, HIDDEN_PENDULUM
from studies.logs.industrial import INDUSTRIAL
from studies.logs.pipeline import PIPELINE
from studies.logs.plant import LogPlant, streamed
from studies.logs.reactor import REACTOR
from studies.logs.two_tanks import TWO_TANKS

__all__ = ["LOG_PLANTS", "LogPlant", "streamed"]

LOG_PLANTS: Mapping[str, LogPlant] = MappingProxyType(
    {
        plant.name: plant
        for plant in (
            LEVEL_TANK,
            DELAY_LINE,
            HEATED_TANK,
            PIPELINE,
            *INDUSTRIAL,
            HIDDEN_PENDULUM,
            HIDDEN_CART_POLE,
            TWO_TANKS,
            REACTOR,
        )
    }
)
"""All plants by name; the first two are for development."""
