"""A dataset for d3rlpy that holds as many transitions as it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nopg.data._chains import chains
from nopg.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["to_d3rlpy"]


def to_d3rlpy(data: Transitions, *, encode_angles: bool = False) -> Any:
    """Return a `d3rlpy.dataset.ReplayBuffer` with exactly `len(data)` transitions.

    d3rlpy stores states, not next states, and drops the last step of every episode that did not terminate. So
    every unbroken stretch of rows becomes an episode, and one that did not terminate gets a step more, whose
    state is the last next state: d3rlpy drops that one. Its action (the last one, repeated) is only ever seen
    as a next action, by algorithms that ask for it; its reward is 0. d3rlpy computes in float32, and replaces
    the next state of a terminal transition, which nothing depends on, by zeros.

    Args:
        data: Transitions in episodes, or unconnected ones, which become episodes of a single transition.
        encode_angles: Give a declared angle as its cosine and sine instead of as it is.
    """
    try:
        from d3rlpy import ActionSpace
        from d3rlpy.dataset import Episode, InfiniteBuffer, ReplayBuffer, Signature
    except ImportError as error:
        raise MissingExtraError("d3rlpy", "benchmark") from error

    if data.weights is not None:
        raise DataError("d3rlpy counts every transition once; give data without weights")
    states = (data.features if encode_angles else data.states).numpy().astype(np.float32)
    following = (data.next_features if encode_angles else data.next_states).numpy().astype(np.float32)
    actions = data.actions.numpy().astype(np.float32)
    rewards = data.rewards.numpy().astype(np.float32)[:, None]

    episodes = []
    for rows in chains(data):
        last = rows.stop - 1
        terminated = bool(data.terminated[last])
        more = slice(last, last if terminated else rows.stop)  # one step more, or none
        episodes.append(
            Episode(
                observations=np.concatenate([states[rows], following[more]]),
                actions=np.concatenate([actions[rows], actions[more]]),
                rewards=np.concatenate([rewards[rows], 0 * rewards[more]]),
                terminated=terminated,
            )
        )
    return ReplayBuffer(
        InfiniteBuffer(),
        episodes=episodes,
        observation_signature=Signature([states.dtype], [states.shape[1:]]),
        action_signature=Signature([actions.dtype], [actions.shape[1:]]),
        reward_signature=Signature([rewards.dtype], [rewards.shape[1:]]),
        action_space=ActionSpace.CONTINUOUS,
        action_size=actions.shape[1],
    )
