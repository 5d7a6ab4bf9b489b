"""An ascent whose steps become smaller where one has led down, and larger where they lead up."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

import torch

from nopg._nesting import nested, part_of
from nopg.policies import Policy
from nopg.policies._policy import trainable

__all__ = ["Backtracking"]

# What counts as a step down, of the range of returns; what a step is then multiplied by, and after a rise.
_DOWN, _SMALLER, _LARGER = 2e-3, 0.5, 1.5
# The first step, as a share of the learning rate: a start is often good already.
_FIRST = 0.3


class Backtracking:
    """Keeps the best policy of an ascent on a deterministic objective, and sets the size of its steps.

    Args:
        return_range: How far returns may differ.

    Attributes:
        scale: Factor on the learning rate, at most 1.
    """

    def __init__(self, return_range: float) -> None:
        self.scale = _FIRST
        self._slack = _DOWN * return_range
        self._best, self._parameters = -math.inf, dict[str, torch.Tensor]()
        self._gradient = torch.zeros(0)  # of all parameters in a row

    def review(
        self,
        policy: Policy,
        optimizer: torch.optim.Optimizer,
        objective: float,
        gradient: Sequence[torch.Tensor],
    ) -> None:
        """Prepare the next step: from this policy, or a smaller one from the best if this is much worse."""
        if objective > self._best:
            self._best, self._parameters = objective, copy.deepcopy(policy.state_dict())
            self._gradient = torch.cat([part.reshape(-1) for part in gradient])
            self.scale = min(_LARGER * self.scale, 1.0)
        elif not objective >= self._best - self._slack:
            self.scale *= _SMALLER
            optimizer.state.clear()
            policy.load_state_dict(self._parameters)
            parameters = trainable(policy)
            parts = self._gradient.split([parameter.numel() for parameter in parameters])
            for parameter, part in zip(parameters, parts, strict=True):
                parameter.grad = part.view_as(parameter).clone()

    def finish(self, policy: Policy) -> None:
        """Put the policy to the best one."""
        policy.load_state_dict(self._parameters)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return what the next review depends on."""
        numbers = torch.tensor([self.scale, self._best], dtype=torch.float64)
        return {"numbers": numbers, "gradient": self._gradient, **nested(best=self._parameters)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        self.scale, self._best = state["numbers"].tolist()
        self._parameters = part_of("best", state)
        self._gradient = state["gradient"]
