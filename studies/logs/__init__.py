"""Logs as plants write them, with moving set points and delays."""

from collections.abc import Mapping
from types import MappingProxyType

from studies.logs.development import DELAY_LINE, LEVEL_TANK
from studies.logs.heated_tank import HEATED_TANK
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
            TWO_TANKS,
            REACTOR,
        )
    }
)
"""All plants by name; the first two are for development."""
