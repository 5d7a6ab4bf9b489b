"""d3rlpy's replay buffer with its transitions laid out once: the same batches in a fraction of the time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from d3rlpy.dataset import ReplayBuffer, TransitionMiniBatch

_COLUMNS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "next_actions",
    "terminals",
    "intervals",
)


class BatchBuffer(ReplayBuffer):  # type: ignore[misc]
    """A buffer that draws the rows of a batch together.

    d3rlpy picks the transitions of a batch one by one, which takes longer than an update of small networks.

    Args:
        buffer: Whose transitions to draw.
    """

    def __init__(self, buffer: ReplayBuffer) -> None:
        info = buffer.dataset_info
        super().__init__(
            buffer.buffer,
            buffer.transition_picker,
            observation_signature=info.observation_signature,
            action_signature=info.action_signature,
            reward_signature=info.reward_signature,
            action_space=info.action_space,
            action_size=info.action_size,
        )
        rows = (buffer.buffer[k] for k in range(buffer.transition_count))
        self._transitions = [buffer.transition_picker(*row) for row in rows]
        self._all = TransitionMiniBatch.from_transitions(self._transitions)

    def sample_transition_batch(self, batch_size: int) -> TransitionMiniBatch:
        """Return rows drawn evenly, with replacement, as d3rlpy does."""
        rows: Any = np.random.randint(self.transition_count, size=batch_size)  # noqa: NPY002 - as d3rlpy
        return replace(
            self._all,
            **{column: getattr(self._all, column)[rows] for column in _COLUMNS},
            transitions=[self._transitions[row] for row in rows],
        )
