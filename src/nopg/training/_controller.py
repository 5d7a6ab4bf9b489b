"""A trained policy as a user runs it: raw observations in, actions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
import torch

from nopg._columns import Columns
from nopg._stream import Streaming, check_states, wrong_shape
from nopg._typing import ArrayLike, FloatArray, as_tensor
from nopg.data import Schema
from nopg.errors import DataError
from nopg.policies import Policy


@dataclass(frozen=True)
class Controller(Streaming):
    """A policy with the columns it was trained on.

    A state holds derived columns too, if the data have some; `stream` computes them from measurements.

    Attributes:
        policy: Acts on state features.
        schema: Turns raw states into features.
    """

    policy: Policy
    schema: Schema

    @overload
    def __call__(self, observation: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __call__(self, observation: ArrayLike) -> FloatArray | torch.Tensor: ...

    def __call__(self, observation: ArrayLike) -> FloatArray | torch.Tensor:
        """Return the action (d_a,) at a raw state (d_s,), or actions (m, d_a) at states (m, d_s).

        Numpy in gives numpy out, a tensor gives a tensor. A stochastic policy acts by its mean.
        A number that is not finite raises `ObservationError`, as at runtime.
        """
        states = self.raw_states(observation)
        with torch.no_grad():
            actions = self.policy.mode(self.schema.encode(states))
        actions = actions[0] if as_tensor(observation).ndim == 1 else actions
        return actions if isinstance(observation, torch.Tensor) else np.asarray(actions.numpy())

    def raw_states(self, given: ArrayLike) -> torch.Tensor:
        """Return raw states (m, d_s); another shape and numbers that are not finite are refused."""
        states, columns = as_tensor(given), len(self.schema.states)
        if states.ndim not in {1, 2} or states.shape[-1] != columns:
            raise DataError(wrong_shape(self.schema, tuple(states.shape)))
        rows = states.reshape(-1, columns)
        check_states(self.schema, rows.numpy(force=True))
        return rows

    def _observed(self) -> Columns:
        return self.schema
