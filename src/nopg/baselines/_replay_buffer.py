"""d3rlpy replay buffers with exactly the given transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nopg.data._episodes import contiguous_runs
from nopg.data._transitions import Transitions
from nopg.data.io._files import extra
from nopg.errors import DataError


def to_d3rlpy(data: Transitions, *, encode_angles: bool = False) -> Any:
    """Return a `d3rlpy.dataset.ReplayBuffer` with exactly `len(data)` transitions.

    d3rlpy stores states, not next states, and drops the last step of every episode that did not terminate. So
    every contiguous run of rows becomes an episode, and one that did not terminate gets one step more, whose
    state is the last next state: d3rlpy drops that one. Its action (the last one, repeated) is only ever seen
    as a next action, by algorithms that ask for it; its reward is 0. d3rlpy computes in float32, and replaces
    the next state of a terminal transition, which nothing depends on, by zeros.

    Args:
        data: Transitions in episodes, or unconnected ones, which become episodes of a single transition.
        encode_angles: Give a declared angle as its cosine and sine instead of as it is.
    """
    d3rlpy, dataset = extra("d3rlpy"), extra("d3rlpy.dataset")
    if data.weights is not None:
        raise DataError("d3rlpy counts every transition once; give data without weights")
    states = (data.features if encode_angles else data.states).numpy().astype(np.float32)
    following = (data.next_features if encode_angles else data.next_states).numpy().astype(np.float32)
    actions = data.actions.numpy().astype(np.float32)
    rewards = data.rewards.numpy().astype(np.float32)[:, None]

    episodes = []
    for rows in contiguous_runs(data):
        last = rows.stop - 1
        terminated = bool(data.terminated[last])
        more = slice(last, last if terminated else rows.stop)  # one step more, or none
        episodes.append(
            dataset.Episode(
                observations=np.concatenate([states[rows], following[more]]),
                actions=np.concatenate([actions[rows], actions[more]]),
                rewards=np.concatenate([rewards[rows], 0 * rewards[more]]),
                terminated=terminated,
            )
        )
    return dataset.ReplayBuffer(
        dataset.InfiniteBuffer(),
        episodes=episodes,
        observation_signature=dataset.Signature([states.dtype], [states.shape[1:]]),
        action_signature=dataset.Signature([actions.dtype], [actions.shape[1:]]),
        reward_signature=dataset.Signature([rewards.dtype], [rewards.shape[1:]]),
        action_space=d3rlpy.ActionSpace.CONTINUOUS,
        action_size=actions.shape[1],
    )
