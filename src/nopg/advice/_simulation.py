"""Rows that an experiment is predicted to give, and a log with such rows added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from nopg._seeding import generator
from nopg.advice._experiments import Box
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.large_logs._log import joined
from nopg.models import LocalModel
from nopg.models._rollout import rollout

_FEWEST_NEW, _FEWEST_EPISODES = 4, 6
# Paths are simulated for this multiple of the episodes, as some end early or leave the bounds.
_SPARE = 2


def episode_plan(data: Transitions, rows: int) -> tuple[int, int]:
    """Return number and length of the episodes: as in the log, at least four, enough for a verdict `ok`."""
    lengths = [len(one) for one in episode_rows(data)] or [rows]
    usual = int(torch.tensor(lengths).median())
    number = min(max(-(-rows // usual), _FEWEST_NEW, _FEWEST_EPISODES - len(lengths)), rows)
    return number, -(-rows // number)


def predicted_rows(
    model: LocalModel,
    act: Callable[[torch.Tensor], torch.Tensor],
    starts: torch.Tensor,
    *,
    steps: int,
    rows: int,
    box: Box,
    seed: int,
) -> tuple[Transitions | None, float]:
    """Return at most so many rows of an experiment on the model, and the share of rows outside the bounds.

    A path counts until it leaves the bounds of the states; None if no row is left.
    """
    starts = starts.repeat(_SPARE, 1)
    rng = generator(seed, "noise of an experiment")
    noise = torch.randn(steps, len(starts), 2 * model.num_states, generator=rng, dtype=torch.float64).numpy()
    path = rollout(model, lambda features, _: act(features), starts, steps, noise=noise)
    measured, going = torch.as_tensor(path.measured), torch.as_tensor(path.going) > 0
    within = box.contains(measured).long().cumprod(dim=0).bool()
    kept = (going[:-1] & within[:-1] & within[1:]).T
    outside = 1.0 - float(kept.sum() / going[:-1].sum())
    episode, step = kept.nonzero()[:rows].T
    if len(step) == 0:
        return None, outside
    ended = ~going[step + 1, episode]
    last = torch.cat([episode[1:] != episode[:-1], torch.ones(1, dtype=torch.bool)])
    found = Transitions(
        states=measured[step, episode],
        actions=torch.as_tensor(path.actions)[step, episode],
        rewards=torch.as_tensor(path.rewards)[step, episode],
        next_states=measured[step + 1, episode],
        terminated=ended,
        truncated=last & ~ended,
        schema=model.data.schema,
        episodes=episode,
    )
    return found, outside


def append(data: Transitions, new: Transitions) -> Transitions:
    """Return a log with rows of new episodes added; the starts of the task stay those of the log."""
    parts, weighted = [data, new], data.weights is not None or new.weights is not None
    for k, one in enumerate(parts):
        episodes = torch.arange(len(one)) if one.episodes is None else one.episodes
        weights = torch.ones(len(one)).double() if weighted and one.weights is None else one.weights
        parts[k] = replace(one, episodes=episodes, weights=weights)
    both, begins = joined(parts), None
    if (rows := data.start_rows) is not None:
        begins = torch.zeros(len(both), dtype=torch.bool).index_fill(0, rows, True)
    return replace(both, initial_states=data.initial_states, begins=begins)
