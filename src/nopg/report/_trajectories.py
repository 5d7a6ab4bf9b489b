"""Predicted paths of a policy beside logged ones, column by column."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.evaluation import Assessment
from nopg.evaluation._paths import Paths
from nopg.inspect._wording import count_of
from nopg.report._fan import Fan, draw_fans, fans_table
from nopg.report._pictures import Picture
from nopg.report._state_axes import named
from nopg.report._time_axis import TimeAxis

_PREDICTED, _LOGGED = "#0072B2", "#D55E00"
_MOST_COLUMNS, _MOST_ACTIONS = 6, 3
_MOST_EPISODES = 200


def trajectory_pictures(policy: Assessment, logged: Assessment, data: Transitions) -> Mapping[str, Picture]:
    """Return fan charts by column: the first states and actions, then the reward.

    Without episodes the log has no paths; then they are those of the imitated logged behaviour.
    """
    schema = data.schema
    predicted = _predicted(policy.paths)
    if data.episodes is None:
        others, title = _predicted(logged.paths), "logged, imitated"
    else:
        others = _episodes(data, len(predicted))
        title = f"logged, {count_of(others.shape[1], 'episode')}"
    names = (*schema.states, *schema.actions, "reward" if "reward" not in schema.states else "reward_")
    drawn = [
        *range(len(schema.states))[:_MOST_COLUMNS],
        *range(len(schema.states), len(names) - 1)[:_MOST_ACTIONS],
        len(names) - 1,
    ]
    axis, pictures = TimeAxis.of(schema.interval, len(predicted)), {}
    for column in drawn:
        own, beside = predicted[..., column], others[..., column]
        period = schema.angles.get(names[column]) if column < len(schema.states) else None
        if period is not None:
            centre = _mean_angle(own[0], period)
            own, beside = _turned(own, period, centre), _turned(beside, period, centre)
        fans = (
            Fan("predicted", "predicted", _PREDICTED, own, _unknown_after(policy.paths)),
            Fan("logged", title, _LOGGED, beside),
        )
        label = named(names[column], schema)
        pictures[names[column]] = Picture(draw_fans(label, *fans, axis=axis), fans_table(*fans, axis=axis))
    return pictures


def _predicted(paths: Paths) -> FloatArray:
    """Return states, actions and rewards by the model of all rows, NaN after the end, shape (T, m, c)."""
    m = paths.returns.shape[1]
    columns = torch.cat([paths.states, paths.actions, paths.rewards[..., None]], dim=2)[:, :m]
    ended = paths.going[:, :m] <= 0
    return columns.masked_fill(ended[..., None], math.nan).double().numpy()


def _unknown_after(paths: Paths) -> int | None:
    m = paths.returns.shape[1]
    lost = paths.left[:, :m].sum(dim=1) < 0.5 * paths.going[:, :m].sum(dim=1)
    return int(lost.int().argmax()) if bool(lost.any()) else None


def _episodes(data: Transitions, steps: int) -> FloatArray:
    """Return the first steps of at most 200 episodes, shape (T, m, c)."""
    parts = episode_rows(data)
    parts = parts[:: -(-len(parts) // _MOST_EPISODES)]
    columns = torch.cat([data.states, data.actions, data.rewards[:, None]], dim=1)
    found = torch.full((steps, len(parts), columns.shape[1]), math.nan, dtype=torch.float64)
    for k, rows in enumerate(parts):
        found[: len(rows), k] = columns[rows[:steps]]
    return found.numpy()


def _mean_angle(angles: FloatArray, period: float) -> float:
    turns = np.exp(2j * math.pi * angles / period).mean()
    return float(np.angle(turns)) * period / (2 * math.pi)


def _turned(paths: FloatArray, period: float, centre: float) -> FloatArray:
    """Return angles without jumps; all paths begin within half a turn of the centre."""
    whole = np.unwrap(paths, axis=0, period=period)
    return np.asarray(whole - period * np.round((whole[0] - centre) / period))
