"""What the model leaves unexplained in rows that it has not seen, and what that tells of the log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy import special
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data import Transitions
from nopg.data._derive import rows_before
from nopg.data._episodes import spaced_blocks
from nopg.models._regression_rows import InputSpace

if TYPE_CHECKING:
    from nopg.models._local_model import LocalModel

# Rows of which `HeldOutRows` and `Residuals` consist at most.
_MOST_HELD_OUT, _MOST_ROWS = 2_000, 20_000
# How many rows there must be for each number that is compared with residuals.
_ROWS_PER_NUMBER = 10
# Residuals are cut at this many standard deviations, so that a single row decides nothing.
_CUT = 3.0
# Residuals of the rows before count by powers of it: a slow disturbance shows in many, hardly in one.
_FADING, _LAST = 0.7, 12
# What counts: the probability of chance, and the share of a step's standard deviation that is predicted.
_CHANCE, _MATTERS = 2.5e-3, 0.03
# A column that is a linear function of others up to this share of its deviation tells nothing of its own.
_NOTHING_NEW = 1e-6

# Values that are closer, as a share of their range, are one value that was computed in two ways.
_ROUNDED = 1e-6

# A row is rare beyond this many robust deviations of the residuals; normal noise is never so far.
_FAR = 15.0
# The least deviation, as a share of that of the column itself: no fit is exact.
_FINEST = 0.05
# Standard deviation of normal numbers over the median of their size.
_BY_MEDIAN = 1.4826
# Share of the weight of paths that may lie within the margin.
_NEAR_SHARE = 0.01

Source = Literal["errors before", "action before", "time"]

# What a source of some columns means, and what to do.
_MEANING: dict[Source, tuple[str, str]] = {
    "errors before": (
        "prediction errors last from row to row: a disturbance or a state that is not logged, or a slow "
        "sensor",
        "Log it, or add lags: `--set lags=auto`",
    ),
    "action before": (
        "the action of the row before matters: a delay, a slow actuator, or a disturbance that the operator "
        "reacts to",
        "Add lags: `--set lags=auto`, or log the action as it was applied",
    ),
    "time": (
        "the time since the episode began matters: ageing or warming up",
        "Log what changes, or the time",
    ),
}


def _predicted(model: LocalModel, inputs: Tensor, groups: Tensor, log: Transitions | None) -> FloatArray:
    """Return `OneStep.step` at inputs (n, d) by a model that has not seen their groups (n,).

    Rewards are those of measured states, the ones of the log where the inputs are filtered.
    """
    measured = inputs if log is None else torch.cat([log.states, log.actions], dim=1)
    out, _ = model.without_groups().steps.step(
        inputs.T.contiguous().numpy(),
        (1 + groups).numpy(),
        measured=measured.T.contiguous().numpy(),
        slopes=False,
    )
    return out


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows predicted by a model that has not seen their group."""

    inputs: Tensor  # (s, a) of the model's rows, (n, d)
    groups: Tensor  # the group of each row, (n,)
    next_states: Tensor  # measured, (n, d_s)
    terminated: Tensor  # whether the row ended the task, (n,)
    reward_errors: Tensor  # logged less predicted reward, (n,)
    predicted: Tensor  # next states, (n, d_s)
    disturbances: Tensor  # standard deviation of the plant around them, (n, d_s)

    @classmethod
    def of(cls, model: LocalModel) -> HeldOutRows:
        """Return at most 2 000 distinct rows of the log of a model, or the plant's own ones."""
        rows, d_s, own = model.rows, model.num_states, model.own_rows
        if own is None:
            chosen = rows.sample[:_MOST_HELD_OUT]
            log = model.data.take(rows.first[chosen])
            inputs, groups, rewards = rows.inputs[chosen], rows.groups[chosen], log.rewards
            next_states, terminated = log.next_states, log.terminated
        else:
            log, inputs, groups = None, own.inputs, own.groups
            rewards, terminated = own.targets[:, d_s], own.terminated
            next_states = inputs[:, :d_s] + own.targets[:, :d_s]
        out = _predicted(model, inputs, groups, log)
        errors = rewards - torch.as_tensor(np.clip(out[d_s], *model.reward_clamp))
        predicted = inputs[:, :d_s] + torch.as_tensor(out[:d_s].T)
        exogenous = torch.as_tensor(model.steps.known.exogenous)
        predicted[:, exogenous] = next_states[:, exogenous]  # moved by nothing that a model predicts
        return cls(
            inputs=inputs,
            groups=groups,
            next_states=next_states,
            terminated=terminated,
            reward_errors=errors if model.reward_function is None else torch.zeros_like(errors),
            predicted=predicted,
            disturbances=torch.as_tensor(out[-1 - d_s : -1].T),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """What a model that has not seen a row's group leaves unexplained in it.

    Where sensors are noisy, steps are predicted from filtered states: their errors are independent.
    """

    log: Transitions  # the rows without copies, blocks of them where there are many
    linked: BoolArray  # whether a row follows the one before it, (n,)
    states: FloatArray  # of the measured columns, (n, d_x); 0 in columns that are not learned
    rewards: FloatArray  # of the reward, 0 where it is known, (n,)
    # Standard deviation of the steps of the columns; 0 in those that are not learned, (d_x,)
    spread: FloatArray

    @classmethod
    def of(cls, model: LocalModel) -> Residuals:
        """Return those of a model's log."""
        rows, d_s, d_x = model.rows, model.num_states, model.steps.known.num_measured
        chosen = spaced_blocks(len(rows), _MOST_ROWS)
        log, inputs = model.data.take(rows.first[chosen]), rows.inputs[chosen]
        linked = log.continues.numpy().copy()
        linked[:1] = False
        out = _predicted(model, inputs, rows.groups[chosen], log)
        steps = log.schema.difference(inputs[:, :d_s], log.next_states).numpy()
        learned = ~model.steps.known.all[:d_x]
        rewards = log.rewards.numpy() - out[d_s]
        return cls(
            log=log,
            linked=linked,
            states=np.where(learned, steps[:, :d_x] - out[:d_x].T, 0.0),
            rewards=rewards if model.reward_function is None else np.zeros_like(rewards),
            spread=np.where(learned, rows.spread[:d_x].numpy(), 0.0),
        )

    @property
    def coarse(self) -> dict[str, float]:
        """Steps of the values of learned columns that change from row to row by less than such a step.

        Rounding to steps that are finer than the changes is like a white noise of the sensor, of which filter
        and intervals know. Rounding to coarser ones is not: it depends on the state and lasts.
        """
        columns = zip(self.log.schema.measured, self.log.states.numpy().T, self.spread.tolist(), strict=False)
        steps = [(name, _step_of(values), spread) for name, values, spread in columns]
        return {name: step for name, step, spread in steps if 0.0 < spread < step}


def _step_of(values: FloatArray) -> float:
    """Return the median distance of neighbours among distinct values; 0 where few values recur."""
    levels = np.unique(values)
    gaps = np.diff(levels)
    gaps = gaps[gaps > _ROUNDED * (levels[-1] - levels[0])]
    recur = 0 < len(gaps) < len(values) / 2
    return float(np.median(gaps)) if recur else 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """How far the residual of a column is predicted by something that is not in its row."""

    column: str
    source: Source  # what predicts it
    chance: float  # probability of such a relation where there is none
    share: float  # standard deviation that is predicted, as a share of that of the column's steps

    @property
    def matters(self) -> bool:
        """Whether it is neither chance nor negligible."""
        return self.chance < _CHANCE and self.share > _MATTERS


def meanings(memories: Sequence[Memory]) -> tuple[tuple[str, str], ...]:
    """Return what relations that matter mean and what to do about them, a pair for each of their sources."""
    pairs = list[tuple[str, str]]()
    for source, (what, advice) in _MEANING.items():
        if names := list(
            dict.fromkeys(one.column for one in memories if one.source == source and one.matters)
        ):
            verb = "depends" if len(names) == 1 else "depend"
            pairs.append((f"{', '.join(names)} {verb} on more than the row: {what}", advice))
    return tuple(pairs)


def memory_of(residuals: Residuals) -> tuple[Memory, ...]:
    """Return what predicts the residuals of each learned column.

    The residuals e of one-step predictions on held-out rows are compared with what a model of (s, a) cannot
    know: the residuals of the rows before, the nearest counting most, the action of the row before and the
    time since the episode began. The last two are taken as they are beyond a linear function of (1, s, a).
    Where such columns Z tell nothing, the score u = Zᵀe has the covariance S = Σ e² z zᵀ whatever the
    variance of each row, and uᵀS⁻¹u is χ² distributed.
    """
    later = np.flatnonzero(residuals.linked)
    if len(later) == 0:
        return ()
    log = residuals.log
    present = np.column_stack([np.ones(len(log)), log.features.numpy(), log.actions.numpy()])
    past = _Past(_standardised(present[later]), log.actions.numpy(), rows_before(residuals.linked), later)
    return tuple(
        one
        for name, errors, spread in zip(
            log.schema.measured, residuals.states.T, residuals.spread, strict=True
        )
        if spread > 0
        for one in past.memories(name, errors, float(spread))
    )


class _Past:
    """What came before rows, beyond a linear function of what is in them.

    The rows that follow another one are `later` (m,); 1, state features and actions of these are `present`
    (m, q). Of all rows there are actions (n, d_a) and the number of rows before each in its run, `place`
    (n,).
    """

    def __init__(self, present: FloatArray, actions: FloatArray, place: IntArray, later: IntArray) -> None:
        self._present, self._later, self._place = present, later, place
        time = place[later] - place[later].mean()
        self._sources: dict[Source, FloatArray] = {
            "action before": self._beyond(actions[later - 1]),
            "time": self._beyond(present * time[:, None]),
        }

    def memories(self, name: str, residuals: FloatArray, spread: float) -> Iterator[Memory]:
        """Yield what is predicted by each source of one column's residuals (n,)."""
        deviation = float(residuals.std())
        if not deviation > 0.0:  # also where a group left out leaves no model
            return
        cut = np.clip(residuals / deviation, -_CUT, _CUT)
        now, sources = cut[self._later], [*self._sources.items()]
        for first in (1, 2):
            before = self._before(cut, first)[self._later]
            if now @ before > 0:  # noise of a sensor makes successive residuals opposite, not later ones
                sources.append(("errors before", before[:, None]))
        for source, columns in sources:
            if 0 < columns.shape[1] * _ROWS_PER_NUMBER <= len(now):
                chance, share = _score(now, columns)
                yield Memory(name, source, chance, share * deviation / spread)

    def _before(self, values: FloatArray, first: int) -> FloatArray:
        """Return fading sums of the values (n,) of rows before in the run, from the `first` on."""
        sums = np.zeros_like(values)
        for steps in range(first, _LAST + 1):
            rows = np.flatnonzero(self._place >= steps)
            sums[rows] += _FADING ** (steps - first) * values[rows - steps]
        return sums

    def _beyond(self, columns: FloatArray) -> FloatArray:
        """Return columns (m, ·) less their linear functions of the present; without those that are such."""
        about = columns - self._present @ np.linalg.lstsq(self._present, columns, rcond=None)[0]
        size = np.sqrt(np.square(columns).mean(axis=0))
        own = np.sqrt(np.square(about).mean(axis=0))
        kept = own > _NOTHING_NEW * np.maximum(size, 1e-300)
        return np.asarray(about[:, kept] / own[kept])


def _score(residuals: FloatArray, columns: FloatArray) -> tuple[float, float]:
    """Return the probability of chance, and the predicted share of the residuals' deviation."""
    n, k = columns.shape
    u = columns.T @ residuals
    covariance = (columns * np.square(residuals)[:, None]).T @ columns
    statistic = float(u @ np.linalg.lstsq(covariance, u, rcond=None)[0])
    fitted = columns @ np.linalg.lstsq(columns, residuals, rcond=None)[0]
    explained = float(np.square(fitted).sum() / np.square(residuals).sum())
    return float(special.chdtrc(k, statistic)), math.sqrt(max(explained - k / n, 0.0))


def _standardised(columns: FloatArray) -> FloatArray:
    """Return columns in units of their deviations about their means; a constant one as it is."""
    deviation = columns.std(axis=0)
    varies = deviation > 0
    about = columns - np.where(varies, columns.mean(axis=0), 0.0)
    return np.asarray(about / np.where(varies, deviation, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class RareRows:
    """Rows far from their predictions, which the model does not foresee at all.

    A log with few such rows tells that something may happen, such as a runaway, a fall or a kick, but hardly
    how often and from where. A mean over predicted paths, on which it does not happen, is then worth little,
    unless the paths stay farther away than any logged row that led there.
    """

    count: int  # number of them
    names: tuple[str, ...]  # columns in which they are
    margin: float  # distance from them of the farthest row that led to one of them
    tree: cKDTree | None  # of their states
    space: InputSpace  # units of the states

    @classmethod
    def of(cls, residuals: Residuals, space: InputSpace, discount: float) -> RareRows:
        """Return those of a log.

        Args:
            residuals: On held-out rows.
            space: Of the states.
            discount: Rows lead to another one that follows within an effective horizon.
        """
        log = residuals.log
        steps = log.schema.difference(log.states, log.next_states)[:, : len(residuals.spread)]
        errors = np.column_stack([residuals.states, residuals.rewards])
        deviation = _BY_MEDIAN * np.median(np.abs(errors), axis=0)
        unit = np.maximum(deviation, _FINEST * np.column_stack([steps, log.rewards]).std(axis=0))
        far = np.abs(errors) > _FAR * np.where(unit > 0, unit, np.inf)
        rare: BoolArray = far.any(axis=1)
        if not rare.any():
            return cls(0, (), 0.0, None, space)
        names = np.array([*log.schema.measured, "reward"], dtype=object)[far.any(axis=0)]
        points = space.embed(log.states).numpy()
        tree = cKDTree(points[rare])
        led = _leads(rare, residuals.linked, math.ceil(round(1.0 / (1.0 - discount), 9)))
        margin = float(tree.query(points[led])[0].max())
        return cls(int(rare.sum()), tuple(names), margin, tree, space)

    def near(self, states: torch.Tensor, weights: torch.Tensor) -> bool:
        """Return whether weighted states (m, d_s) come nearer than rows that led to a rare one."""
        if self.tree is None:
            return False
        distances, _ = self.tree.query(self.space.embed(states).numpy())
        inside = distances <= self.margin
        return float(weights.numpy()[inside].sum()) > _NEAR_SHARE * float(weights.sum())


def _leads(rare: BoolArray, linked: BoolArray, steps: int) -> BoolArray:
    """Return which rows are rare or are followed by a rare one within some steps of their run."""
    leads = ahead = rare
    for _ in range(steps):
        ahead = np.append(ahead[1:] & linked[1:], [False])
        if not ahead.any():
            break
        leads = leads | ahead
    return leads
