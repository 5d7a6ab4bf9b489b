"""Other ways to a policy's return from logged data, to compare with."""

from __future__ import annotations

import math

import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import ArrayLike, as_tensor
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.errors import ArgumentError, DataError
from nopg.kernels import Bandwidths
from nopg.neighbors import neighbor_search
from nopg.policies import Policy

__all__ = ["importance_sampling_return", "resampled_return"]

_TAIL = 0.01


def importance_sampling_return(
    data: Transitions, log_ratios: ArrayLike, *, discount: float, per_decision: bool = True
) -> float:
    """Return the weighted importance sampling estimate of a policy's discounted return.

    Every reward counts by the ratio of the probabilities of what was done until then, or of all that was done
    in its episode, and weights are normalised over the episodes that lasted so long. What lies beyond the end
    of an episode that was only cut off is not counted.

    Args:
        data: The log, with episodes.
        log_ratios: log π(a|s) − log π_β(a|s) of every row, shape (n,).
        discount: γ.
        per_decision: Whether a reward is weighted by what was done until then only.
    """
    if data.episodes is None:
        raise DataError("importance sampling needs episodes; rows without order have no past")
    gamma, ratios = check_discount(discount), as_tensor(log_ratios)
    if ratios.shape != data.rewards.shape:
        raise ArgumentError(f"log_ratios has shape {tuple(ratios.shape)}; give one for each row")
    episodes = episode_rows(data)
    longest = max(len(rows) for rows in episodes)
    weights = torch.full((len(episodes), longest), -math.inf, dtype=torch.float64)
    rewards = torch.zeros(len(episodes), longest, dtype=torch.float64)
    for number, rows in enumerate(episodes):
        past = ratios[rows].cumsum(dim=0)
        past = past if per_decision else past[-1].expand(len(rows))
        weights[number, : len(rows)], rewards[number, : len(rows)] = past, data.rewards[rows]
        if bool(data.terminated[rows[-1]]):
            weights[number, len(rows) :] = past[-1]  # it stays at its end, for nothing
    share = torch.softmax(weights, dim=0)
    return float((gamma ** torch.arange(longest).double()) @ (share * rewards).sum(dim=0))


def resampled_return(
    policy: Policy,
    data: Transitions,
    bandwidths: Bandwidths,
    *,
    discount: float,
    neighbors: int = 5,
    paths: int = 100,
    seed: int = 0,
) -> float:
    """Return a policy's discounted return along paths that jump from one logged transition to another.

    At each state one of the logged transitions nearest to it and to the policy's action is drawn; the path
    earns its reward and goes on from its next state (resampling by nearest neighbours).

    Args:
        policy: A policy on state features, such as `PolicyLaw.of` makes of anything that acts; it acts by its
            mode.
        data: The log; paths begin in its starts.
        bandwidths: The units of states and actions.
        discount: γ.
        neighbors: How many transitions are drawn from.
        paths: How many.
        seed: Of the draws.
    """
    gamma, rng = check_discount(discount), generator(seed, "resampling")
    states, actions = bandwidths.state_kernel, bandwidths.action_kernel
    tree = neighbor_search(torch.cat([states.scale(data.features), actions.scale(data.actions)], dim=1))
    starts = data.schema.encode(data.starts)
    places = starts[torch.arange(paths) % len(starts)]
    following, total, going = data.next_features, torch.zeros(paths).double(), torch.ones(paths).double()
    horizon = math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 1
    for t in range(horizon):
        with torch.no_grad():
            here = torch.cat([states.scale(places), actions.scale(policy.mode(places))], dim=1)
        _, near = tree.nearest(here, neighbors)
        row = near.long().gather(1, torch.randint(near.shape[1], (paths, 1), generator=rng))[:, 0]
        total += gamma**t * going * data.rewards[row]
        going, places = going * (~data.terminated[row]).double(), following[row]
    return float(total.mean())
