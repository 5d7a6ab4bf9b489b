"""The figures of a report: closed loops, rewards, where actions differ, returns over gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nopg._typing import FloatArray
from nopg.data import Schema, Transitions
from nopg.data._held_out import spread_rows
from nopg.evaluation import Assessment
from nopg.evaluation._assessment import DEVIATIONS, INFLATION
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._paths import Paths
from nopg.report._style import (
    AFTER,
    BEFORE,
    LETTERS,
    LOGGED,
    WIDTH,
    Picture,
    finish,
    label,
    new_figure,
    time_axis,
)
from nopg.training import TrainingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OUTPUTS, _ACTIONS, _OTHERS = 4, 3, 12
_PANEL, _TOP = 1.15, 0.6
# Rows in which actions are compared, and those of them that are drawn; bins of a state column.
_ROWS, _DOTS, _BINS = 5_000, 800, 10
# A smaller difference of an action, as a share of its logged range, is none.
_SAME = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop:
    """Both closed loops from one start; the columns are states, actions, reward."""

    gain: float  # of the new controller from there, in return
    before: FloatArray  # under the logged behaviour, imitated on the model, (T, c); NaN after the end
    after: FloatArray  # under the new controller
    half: FloatArray  # half the width of the 95 % band of the model around `after`
    measured: FloatArray  # what was logged from there on, (k, c) with k ≤ T; empty if it is not in the log
    unknown_from: int | None  # step from which `after` has most likely left the data


def closed_loops(policy: Assessment, logged: Assessment, data: Transitions) -> dict[str, ClosedLoop]:
    """Return the closed loops from the start with the median gain and from that with the least one.

    Both follow the same draws of the noise, so that set-points, weather and disturbances are the same.
    """
    count = len(policy.paths.starts)
    gains = policy.paths.returns[0, :count] - logged.paths.returns[0, :count]
    order = gains.argsort().tolist()
    chosen = {"median": order[count // 2], "least": order[0]}
    if count == 1:
        del chosen["least"]
    return {name: _closed_loop(policy.paths, logged.paths, k, data) for name, k in chosen.items()}


def _closed_loop(policy: Paths, logged: Paths, k: int, data: Transitions) -> ClosedLoop:
    after, before = _columns(policy, k, data.schema), _columns(logged, k, data.schema)[:, 0]
    apart = after[:, 1:] - after[:, :1]
    half = np.sqrt(np.square(apart).mean(axis=1)) if apart.shape[1] else np.zeros_like(after[:, 0])
    lost = policy.stays[:-1, k] < 0.5
    same = (data.states == policy.states[0, k]).all(dim=1).nonzero()[:, 0]
    return ClosedLoop(
        gain=float(policy.returns[0, k] - logged.returns[0, k]),
        before=before,
        after=after[:, 0],
        half=DEVIATIONS * INFLATION * half,
        measured=_measured(data, int(same[0]) if len(same) else len(data), len(after)),
        unknown_from=int(lost.int().argmax()) if bool(lost.any()) else None,
    )


def _columns(paths: Paths, k: int, schema: Schema) -> FloatArray:
    """Return states, actions and reward of path k through all parts of the model, shape (T, P, c)."""
    rows = torch.arange(len(paths.returns)) * paths.returns.shape[1] + k
    parts = [paths.states[:, rows], paths.actions[:, rows], paths.rewards[:, rows, None]]
    found = torch.cat(parts, dim=2).masked_fill((paths.going[:, rows] <= 0)[..., None], torch.nan)
    return _unwrapped(found.double().numpy(), schema)


def _measured(data: Transitions, first: int, steps: int) -> FloatArray:
    """Return states, actions and reward of the rows that follow each other from the first on."""
    linked, last = data.continues, first + 1
    while last < min(first + steps, len(data)) and bool(linked[last]):
        last += 1
    rows = slice(first, min(last, len(data)))
    found = torch.cat([data.states[rows], data.actions[rows], data.rewards[rows, None]], dim=1)
    return _unwrapped(found.double().numpy(), data.schema)


def _unwrapped(columns: FloatArray, schema: Schema) -> FloatArray:
    """Return columns (T, …, c) with angles that do not jump by a turn."""
    for name, period in schema.angles.items():
        k = schema.states.index(name)
        columns[..., k] = np.unwrap(columns[..., k], axis=0, period=period)
    return columns


def column_order(data: Transitions, goals: Mapping[str, str | float]) -> tuple[list[str], list[str]]:
    """Return the columns that matter most, outputs and then actions, and the other columns.

    Outputs with a set-point come first, then those that explain most of the reward. Set-points are drawn with
    their outputs, and derived columns not at all.
    """
    schema, rewards = data.schema, data.rewards.numpy()
    tells = {name: _explained(data.states[:, k].numpy(), rewards) for k, name in enumerate(schema.states)}
    names = [one for one in schema.measured if one not in set(goals.values())]
    names.sort(key=lambda name: (name not in goals, name in schema.exogenous, -tells[name]))
    first = [*names[:_OUTPUTS], *schema.actions[:_ACTIONS]]
    return first, [*names[_OUTPUTS:], *schema.actions[_ACTIONS:]][:_OTHERS]


def draw_loop(
    loop: ClosedLoop, names: Sequence[str], goals: Mapping[str, str | float], schema: Schema, text: str
) -> Picture:
    """Return one panel for each column over time: before, after with its band, the log, the set-point."""
    every, steps = [*schema.states, *schema.actions], len(loop.after)
    axis, table = time_axis(schema.interval, steps)
    places = table[axis]
    figure: Figure = new_figure(WIDTH, _PANEL * len(names) + _TOP)
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        k, goal = every.index(name), goals.get(name)
        after, half = loop.after[:, k], loop.half[:, k]
        log = np.full(steps, np.nan)
        log[: len(loop.measured)] = loop.measured[:, k]
        table |= {
            f"{name} before": loop.before[:, k],
            f"{name} after": after,
            f"{name} low": after - half,
            f"{name} high": after + half,
            f"{name} logged": log,
        }
        _draw(axes, places, table, name, step=name in schema.actions)
        if goal is not None:
            table[f"{name} set-point"] = (
                np.full(steps, goal) if isinstance(goal, float) else loop.after[:, every.index(goal)]
            )
            axes.plot(places, table[f"{name} set-point"], "k--", linewidth=0.9, label="set-point")
        if loop.unknown_from is not None:
            first, end = places[loop.unknown_from], places[-1] + places[1:2].sum()
            axes.axvspan(first, end, color="0.93", zorder=0, label="outside the data")
        finish(axes, title=label(name, schema))
    panels[-1].set_xlabel(axis, fontsize=LETTERS)
    panels[0].set_xlim(0, places[-1] or 1)
    shown = {
        text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        shown.values(), shown.keys(), loc="outside upper left", ncols=3, fontsize=LETTERS, frameon=False
    )
    return Picture(figure, table, text)


def _draw(axes: Axes, places: FloatArray, table: Mapping[str, FloatArray], name: str, *, step: bool) -> None:
    where = "steps-post" if step else "default"
    low, high = table[f"{name} low"], table[f"{name} high"]
    band: dict[str, Any] = {"color": AFTER, "alpha": 0.2, "linewidth": 0, "label": "95 % of the model"}
    axes.fill_between(places, low, high, step="post" if step else None, **band)
    lines = {
        "logged": (LOGGED, "log", 2.2),
        "before": (BEFORE, "before", 1.1),
        "after": (AFTER, "after", 1.4),
    }
    for kind, (color, text, width) in lines.items():
        values = table[f"{name} {kind}"]
        if not np.isnan(values).all():
            axes.plot(places, values, color=color, linewidth=width, drawstyle=where, label=text)


def reward_picture(policy: Assessment, logged: Assessment, schema: Schema) -> Picture:
    """Return the reward over time before and after, over all starts: median and 90 % of the paths."""
    steps = min(len(policy.paths.rewards), len(logged.paths.rewards))
    axis, table = time_axis(schema.interval, steps)
    figure: Figure = new_figure(WIDTH, 2.3)
    axes, places = figure.subplots(), table[axis]
    for name, color, paths in (("before", BEFORE, logged.paths), ("after", AFTER, policy.paths)):
        m = paths.returns.shape[1]
        going = paths.going[:steps, :m] > 0
        rewards = paths.rewards[:steps, :m].masked_fill(~going, torch.nan).double()
        low, middle, high = rewards.nanquantile(torch.tensor([0.05, 0.5, 0.95]).double(), dim=1).numpy()
        table |= {f"{name} 5 %": low, f"{name} median": middle, f"{name} 95 %": high}
        axes.fill_between(places, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(places, middle, color=color, linewidth=1.4, label=name)
    finish(axes, x=axis, title=label("reward", schema), legend=True)
    axes.set_xlim(0, places[-1] or 1)
    return Picture(
        figure, table, "Reward of each step from all starts; line: median, band: 90 % of the paths."
    )


def differences(result: TrainingResult) -> tuple[list[dict[str, Any]], dict[str, Picture]]:
    """Return where the new controller acts otherwise than the log did, and a figure for each first action.

    By action: mean and mean size of new less logged action, the latter as a share of the logged range too,
    the shares of rows with a higher and a lower action, and the state column along which it varies most.
    """
    data, schema = result.data, result.data.schema
    rows = spread_rows(data, min(len(data), _ROWS), purpose="where actions differ").sort().values
    few = data.take(rows)
    new = PolicyLaw.of(result.policy, schema).mode(few.features).detach().double().numpy()
    states, old = few.states.numpy(), few.actions.numpy()
    span = np.maximum(np.ptp(old, axis=0), 1e-300)
    found, pictures = [], dict[str, Picture]()
    for k, action in enumerate(schema.actions):
        apart = new[:, k] - old[:, k]
        column = int(np.argmax([_explained(one, apart) for one in states.T]))
        size, name = float(np.abs(apart).mean()), schema.states[column]
        one = {"action": action, "mean": float(apart.mean()), "size": size, "share": size / float(span[k])}
        one |= {"higher": float((apart > _SAME * span[k]).mean())}
        one |= {"lower": float((apart < -_SAME * span[k]).mean())}
        found.append(one | {"column": name, "unit": schema.units.get(action, "")})
        if k < _ACTIONS:
            table = {name: states[:, column], f"{action} logged": old[:, k], f"{action} new": new[:, k]}
            pictures[f"difference-{k + 1}"] = _scatter(table, action, name, schema)
    return found, pictures


def _explained(column: FloatArray, values: FloatArray) -> float:
    """Return the variance of a quantity between tenths of the rows by a column."""
    bins = np.array_split(values[np.argsort(column, kind="stable")], _BINS)
    return float(np.var([part.mean() for part in bins if len(part)])) if np.ptp(column) > 0 else -1.0


def _scatter(table: Mapping[str, FloatArray], action: str, column: str, schema: Schema) -> Picture:
    figure: Figure = new_figure(WIDTH, 2.4)
    axes, (x, old, new) = figure.subplots(), table.values()
    every = max(len(x) // _DOTS, 1)
    for values, color, text in ((old, LOGGED, "logged"), (new, AFTER, "new")):
        axes.plot(x[::every], values[::every], ".", color=color, markersize=4, label=text, rasterized=True)
    finish(axes, x=label(column, schema), title=label(action, schema), legend=True)
    return Picture(figure, table, f"{action} at logged states, over {column}.")
