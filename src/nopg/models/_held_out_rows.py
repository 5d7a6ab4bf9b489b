"""Rows of the log as the model predicts them from the other groups of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from nopg.models._local_model import LocalModel

_MOST_ROWS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class OwnRows:
    """Rows of the plant itself, where charts were placed by a sample of several plants.

    Attributes:
        inputs: (s, a), shape (m, d).
        targets: s′ − s, then r, shape (m, d_s + 1).
        groups: The group of each row, shape (m,).
        terminated: Whether the row ended the task, shape (m,).
    """

    inputs: Tensor
    targets: Tensor
    groups: Tensor
    terminated: Tensor

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows predicted by a model that has not seen their group.

    Attributes:
        inputs: (s, a) of the model's rows, shape (n, d).
        groups: The group of each row, shape (n,).
        next_states: Measured, shape (n, d_s).
        terminated: Whether the row ended the task, shape (n,).
        reward_errors: Logged less predicted reward, shape (n,).
        predicted: Next states, shape (n, d_s).
        disturbances: Standard deviation of the plant around them, shape (n, d_s).
    """

    inputs: Tensor
    groups: Tensor
    next_states: Tensor
    terminated: Tensor
    reward_errors: Tensor
    predicted: Tensor
    disturbances: Tensor

    @classmethod
    def of(cls, model: LocalModel) -> HeldOutRows:
        """Return at most 2 000 distinct rows of the log of a model, or the plant's own ones."""
        rows, d_s, own = model.rows, model.num_states, model.own_rows
        if own is None:
            some = rows.sample[:_MOST_ROWS]
            log = model.data.take(rows.first[some])
            inputs, measured = rows.inputs[some], torch.cat([log.states, log.actions], dim=1)
            groups, rewards = rows.groups[some], log.rewards
            next_states, terminated = log.next_states, log.terminated
        else:
            inputs = measured = own.inputs
            groups, rewards, terminated = own.groups, own.targets[:, d_s], own.terminated
            next_states = inputs[:, :d_s] + own.targets[:, :d_s]
        out, _ = model.without_groups().steps.step(
            inputs.T.contiguous().numpy(),
            (1 + groups).numpy(),
            measured=measured.T.contiguous().numpy(),
            slopes=False,
        )
        errors = rewards - torch.as_tensor(np.clip(out[d_s], *model.reward_clamp))
        if model.reward_function is not None:
            errors = torch.zeros_like(errors)
        predicted = inputs[:, :d_s] + torch.as_tensor(out[:d_s].T)
        exogenous = torch.as_tensor(model.steps.known.exogenous)
        predicted[:, exogenous] = next_states[:, exogenous]  # moved by nothing that a model predicts
        return cls(
            inputs=inputs,
            groups=groups,
            next_states=next_states,
            terminated=terminated,
            reward_errors=errors,
            predicted=predicted,
            disturbances=torch.as_tensor(out[-1 - d_s : -1].T),
        )
