"""The plants of the benchmark, those to develop on and those to report."""

from collections.abc import Mapping
from types import MappingProxyType

from studies.plants.arm import ARM
from studies.plants.benchmark import Benchmark, Controller, Returns, Role
from studies.plants.cart_pole import CART_POLES
from studies.plants.four_tanks import FOUR_TANKS
from studies.plants.inverted_pendulum import INVERTED_PENDULUM
from studies.plants.motor import MOTOR
from studies.plants.mountain_car import MOUNTAIN_CAR
from studies.plants.pendulum import PENDULUMS
from studies.plants.reactor import REACTOR
from studies.plants.regulation import REGULATOR, TWO_TANKS

__all__ = ["BENCHMARKS", "Benchmark", "Controller", "Returns", "Role"]

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        benchmark.name: benchmark
        for benchmark in (
            *PENDULUMS,
            REGULATOR,
            TWO_TANKS,
            ARM,
            *CART_POLES,
            MOUNTAIN_CAR,
            REACTOR,
            FOUR_TANKS,
            MOTOR,
            INVERTED_PENDULUM,
        )
    }
)
"""All benchmarks by name."""
