"""Errors of one-step predictions on held-out rows, in the order of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from nopg._typing import BoolArray, FloatArray
from nopg.data import Transitions
from nopg.data._episodes import spaced_blocks

if TYPE_CHECKING:
    from nopg.models._local_model import LocalModel

_MOST_ROWS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """What a model that has not seen a row's group leaves unexplained in it.

    Where sensors are noisy, steps are predicted from filtered states: their errors are independent.

    Attributes:
        log: The rows without copies, blocks of them where there are many.
        linked: Whether a row follows the one before it, shape (n,).
        states: Of the measured columns, shape (n, d_x); 0 in columns that are not learned.
        rewards: Of the reward, 0 where it is known, shape (n,).
        spread: Standard deviation of the steps of the columns; 0 in those that are not learned, shape (d_x,).
    """

    log: Transitions
    linked: BoolArray
    states: FloatArray
    rewards: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, model: LocalModel) -> Residuals:
        """Return those of a model's log."""
        own = spaced_blocks(len(model.rows), _MOST_ROWS)
        log = model.data.take(model.rows.first[own])
        linked = log.continues.numpy().copy()
        linked[:1] = False
        d_s, d_x, inputs = model.num_states, model.steps.known.num_measured, model.rows.inputs[own]
        out, _ = model.without_groups().steps.step(
            inputs.T.contiguous().numpy(),
            (1 + model.rows.groups[own]).numpy(),
            measured=torch.cat([log.states, log.actions], dim=1).T.contiguous().numpy(),
            slopes=False,
            noise=False,
        )
        steps = log.schema.difference(inputs[:, :d_s], log.next_states).numpy()
        learned = ~model.steps.known.all[:d_x]
        rewards = log.rewards.numpy() - out[d_s]
        return cls(
            log=log,
            linked=linked,
            states=np.where(learned, steps[:, :d_x] - out[:d_x].T, 0.0),
            rewards=rewards if model.reward_function is None else np.zeros_like(rewards),
            spread=np.where(learned, model.rows.spread[:d_x].numpy(), 0.0),
        )
