"""The plants of the calibration study, written for it alone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from studies.calibration.plants.development import DEVELOPMENT_PLANTS
from studies.calibration.plants.plant import Plant

__all__ = ["PLANTS", "Plant"]

_Role = Literal["development", "report"]

PLANTS: Mapping[str, tuple[Plant, _Role]] = MappingProxyType(
    {plant.name: (plant, "development") for plant in DEVELOPMENT_PLANTS}
)
"""All plants by name, each with its role."""
