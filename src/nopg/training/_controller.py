"""A trained policy as a user runs it: raw observations in, actions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

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
        states = as_tensor(observation)
        columns = len(self.schema.states)
        if states.ndim not in {1, 2} or states.shape[-1] != columns:
            raise DataError(wrong_shape(self.schema, tuple(states.shape)))
        check_states(self.schema, states.reshape(-1, columns).numpy(force=True))
        with torch.no_grad():
            actions = self.policy.mode(self.schema.encode(states.reshape(-1, columns)))
        actions = actions[0] if states.ndim == 1 else actions
        return actions if isinstance(observation, torch.Tensor) else np.asarray(actions.numpy())

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[FloatArray, Any]:
        """Return the action and the memory, None without one, as Stable-Baselines3 asks (`evaluate_policy`).

        Args:
            observation: The measured columns of one environment (d_x,), or of several (m, d_x).
            state: The memory that the last call returned.
            episode_start: Flags (m,) of environments that have just been reset.
            deterministic: Not used; a stochastic policy acts by its mean.
        """
        del deterministic
        seen = np.asarray(observation)
        if not self.has_memory:
            return np.asarray(self(seen)), state
        stream = self.stream(batch=None if seen.ndim == 1 else len(seen))
        if state is not None:
            stream.load_state_dict(state)
        if episode_start is not None and np.any(episode_start):
            stream.reset(rows=None if seen.ndim == 1 else np.asarray(episode_start, dtype=bool))
        return stream.act(seen), stream.state_dict()

    def _observed(self) -> Columns:
        return self.schema
