"""Rows that an experiment is predicted to give, and a log with such rows added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from nopg._seeding import generator
from nopg.advice._box import Box
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.models import LocalModel
from nopg.models._rollout import rollout

_FEWEST_NEW, _FEWEST_EPISODES = 4, 6
# Paths are simulated for this multiple of the episodes, as some end early or leave the bounds.
_SPARE = 2


def episode_plan(data: Transitions, rows: int) -> tuple[int, int]:
    """Return number and length of the episodes of an experiment with this many rows.

    They are as long as those of the log, at least four, and so many that a verdict may be `ok`.
    """
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

    Args:
        model: Model of the plant.
        act: Actions at state features.
        starts: Raw states, shape (m, d_s); each is used twice, as some paths end early.
        steps: Length of an episode.
        rows: Number of rows.
        box: Bounds of the states.
        seed: Seed of the noise of the plant.
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
    numbers = torch.arange(len(data)) if data.episodes is None else data.episodes
    later = torch.arange(len(new)) if new.episodes is None else new.episodes
    columns = ("states", "actions", "rewards", "next_states", "terminated", "truncated")
    parts: dict[str, Any] = {name: torch.cat([getattr(data, name), getattr(new, name)]) for name in columns}
    parts["episodes"] = torch.cat([numbers, later - later.min() + numbers.max() + 1])
    if data.weights is not None or new.weights is not None:
        parts["weights"] = torch.cat(
            [torch.ones(len(one)).double() if one.weights is None else one.weights for one in (data, new)]
        )
    if (rows := data.start_rows) is not None:
        parts["begins"] = torch.zeros(len(parts["states"]), dtype=torch.bool).index_fill(0, rows, True)
    return replace(data, **parts)
