"""The plants of the calibration study, written for it alone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from studies.calibration.plants.development import DEVELOPMENT_PLANTS
from studies.calibration.plants.plant import Plant
from studies.calibration.plants.report_linear import LINEAR_PLANTS
from studies.calibration.plants.report_nonlinear import NONLINEAR_PLANTS

__all__ = ["PLANTS", "Plant", "Role"]

Role = Literal["development", "report"]

PLANTS: Mapping[str, tuple[Plant, Role]] = MappingProxyType(
    {plant.name: (plant, "development") for plant in DEVELOPMENT_PLANTS}
    | {plant.name: (plant, "report") for plant in (*LINEAR_PLANTS, *NONLINEAR_PLANTS)}
)
"""All plants by name, each with its role."""
