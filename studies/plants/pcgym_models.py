"""Process models of pcgym as environments: its equations, our sampling and rewards."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from nopg.envs import Environment
from nopg.errors import MissingExtraError
from studies.plants.simulation import integrate

__all__ = ["ProcessPlant", "process_model", "require"]


def require(module: str) -> Any:
    """Import a module of the `studies` extra, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], "studies") from error


@cache
def process_model(name: str) -> Callable[[Any, Any], list[Any]]:
    """Return a model of pcgym by the name of its class, in its numpy form: rates from states and inputs."""
    model: Callable[[Any, Any], list[Any]] = getattr(require("pcgym.model_classes"), name)(int_method="numpy")
    return model


class ProcessPlant(Environment):
    """A process whose first columns follow a model of pcgym; the others, such as set points, stay.

    pcgym's own environment builds an integrator at every step. Here its equations are integrated by
    Runge-Kutta steps for all rows at once.
    """

    model: str
    constant_inputs: tuple[float, ...] = ()
    low: tuple[float, ...]
    high: tuple[float, ...]
    action_range: Mapping[str, tuple[float, float]]
    time_step: float
    substeps: int
    num_moving: int

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the manipulated inputs."""
        return tuple(self.action_range)

    @property
    def state_low(self) -> torch.Tensor:
        """Physical lower bounds of the states."""
        return torch.tensor(self.low, dtype=torch.float64)

    @property
    def state_high(self) -> torch.Tensor:
        """Physical upper bounds of the states."""
        return torch.tensor(self.high, dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """Lower bounds of the inputs."""
        return torch.tensor([low for low, _ in self.action_range.values()], dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """Upper bounds of the inputs."""
        return torch.tensor([high for _, high in self.action_range.values()], dtype=torch.float64)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) one sampling time later, within their physical bounds."""
        inputs = self.applied(actions)
        k = self.num_moving
        low, high = self.state_low[:k], self.state_high[:k]
        moved = integrate(
            lambda moving: self._rates(moving.clamp(low, high), inputs),
            states[:, :k],
            time=self.time_step,
            substeps=self.substeps,
        )
        return torch.cat([moved.clamp(low, high), states[:, k:]], dim=1)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(len(next_states), dtype=torch.bool)

    def _rates(self, moving: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Return the time derivative (m, k) of the moving columns by the model."""
        constant = [np.full(len(moving), value) for value in self.constant_inputs]
        rates = process_model(self.model)(moving.T.numpy(), np.stack([*inputs.T.numpy(), *constant]))
        return torch.as_tensor(np.stack(rates, axis=1))

    @abstractmethod
    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
