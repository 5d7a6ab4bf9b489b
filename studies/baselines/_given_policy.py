"""Any policy as the algorithm that d3rlpy's FQE asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from d3rlpy import ActionSpace, Modules
from d3rlpy.algos import QLearningAlgoBase, QLearningAlgoImplBase
from d3rlpy.base import LearnableConfig
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.models.torch import EncoderWithAction

__all__ = ["GivenPolicy", "LeadingColumns"]


class GivenPolicy(QLearningAlgoBase[Any, Any]):  # type: ignore[misc]
    """A policy whose actions are known already: they are the last columns of the observations.

    FQE only ever asks for the actions at next states of the data. Written beside the states they need no
    policy any more, so a policy may be anything that once gave actions at raw states.

    Args:
        config: With the scalers of the evaluation.
        features: How many columns come before the actions.
        actions: How many columns the actions have.
    """

    def __init__(self, config: LearnableConfig, features: int, actions: int) -> None:
        super().__init__(config, False, False, _LookUp(config, features, actions))

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """There is nothing to build: what looks the actions up is there from the start."""

    def get_action_type(self) -> ActionSpace:
        """Actions are continuous."""
        return ActionSpace.CONTINUOUS


class _LookUp(QLearningAlgoImplBase):  # type: ignore[misc]
    def __init__(self, config: Any, features: int, actions: int) -> None:
        super().__init__((features + actions,), actions, Modules(), "cpu:0")
        self.config, self.features = config, features

    def inner_predict_best_action(self, x: torch.Tensor) -> torch.Tensor:
        actions = self.config.observation_scaler.reverse_transform(x)[:, self.features :]
        scaled: torch.Tensor = self.config.action_scaler.transform(actions)
        return scaled

    def inner_sample_action(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner_predict_best_action(x)

    def inner_predict_value(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def inner_update(self, batch: Any, grad_step: int) -> dict[str, float]:
        raise NotImplementedError


@dataclass
class LeadingColumns(VectorEncoderFactory):  # type: ignore[misc]
    """d3rlpy's network, blind to all but the first columns of an observation."""

    features: int = 0

    def create_with_action(
        self, observation_shape: Any, action_size: int, discrete_action: bool = False
    ) -> EncoderWithAction:
        """Return the network on the first columns and the action."""
        network = super().create_with_action([self.features], action_size, discrete_action)
        return _Leading(network, self.features)

    @staticmethod
    def get_type() -> str:
        """Return the name under which d3rlpy writes it down."""
        return "leading_columns"


class _Leading(EncoderWithAction):  # type: ignore[misc]
    def __init__(self, network: EncoderWithAction, features: int) -> None:
        super().__init__()
        self.network, self.features = network, features

    def forward(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.network(x[:, : self.features], action)
        return hidden
