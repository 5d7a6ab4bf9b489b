"""Logged transitions (s, a, r, s′), validated once on entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from nopg._columns import Exogenous
from nopg._derived import DerivedColumns
from nopg._typing import ArrayLike, BoolArray
from nopg.data._checks import (
    as_episodes,
    as_flags,
    as_matrix,
    as_starts,
    as_vector,
    check_levels,
    check_magnitudes,
    check_rows,
    columns_of,
    finite_rows,
    flagged_episodes,
)
from nopg.data._derive import (
    RewardFormula,
    actions_before,
    derived_schema,
    derived_states,
    moved_starts,
)
from nopg.data._repairs import Repairs
from nopg.data._schema import Schema, declared_schema, name_columns
from nopg.errors import ArgumentError, DataError

StartKind = Literal["declared", "episodes", "rows"]
"""Starts of a task: declared states, the beginnings of episodes, or every row."""

_PER_ROW = (
    *("states", "actions", "rewards", "next_states", "terminated", "truncated"),
    *("episodes", "weights", "begins"),
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Transitions:
    """A dataset of n transitions; build it with `from_arrays` or a reader of `nopg.data.io`.

    Attributes:
        states: s, raw columns, shape (n, d_s).
        actions: a, as they were applied, shape (n, d_a).
        rewards: r, shape (n,).
        next_states: s′, shape (n, d_s).
        terminated: True where s′ ends the task: no value follows it. Shape (n,).
        truncated: True where only the recording ended: the value of s′ still counts. Shape (n,).
        schema: Names of the columns and the declared angles, units and bounds.
        episodes: Episode number of every row, shape (n,), or None where rows are unconnected.
        initial_states: Declared states in which the task starts, shape (n₀, d_s), or None.
        weights: Number of transitions that each row counts for, shape (n,); None for one each.
        begins: True in rows in which the task starts, shape (n,), or None: then see `start_rows`.
        repairs: What a reader repaired; neither saved nor part of what makes two datasets equal.
    """

    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    next_states: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    schema: Schema
    episodes: torch.Tensor | None = None
    initial_states: torch.Tensor | None = None
    weights: torch.Tensor | None = None
    begins: torch.Tensor | None = None
    repairs: Repairs = field(default_factory=Repairs)

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike | str,
        next_states: ArrayLike,
        *,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        episodes: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        angles: Mapping[str, float] | Sequence[str | int] | None = None,
        units: Mapping[str, str] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[float]] | None = None,
        exogenous: Mapping[str, Exogenous] | Sequence[str] | None = None,
        interval: float | None = None,
        initial_states: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        begins: ArrayLike | None = None,
    ) -> Transitions:
        """Validate arrays and bind them into a dataset.

        Args:
            states: One row per transition; a vector is one column.
            actions: The actions that were applied, one row per transition.
            rewards: One number per transition, or the reward as a formula; see `with_reward`.
            next_states: The state each transition led to, never inferred from the next row.
            terminated: Flags of transitions that ended the task; False everywhere if absent.
            truncated: Flags of transitions after which only the recording ended; terminated goes first.
            episodes: Number of the episode of every row. If absent, an episode ends at every flag, but only
                where rows are in sequence: 9 in 10 next states are those of the next row.
            state_names: Names of the state columns; `s0, s1, …` if absent.
            action_names: Names of the action columns; `a0, a1, …` if absent.
            angles: State columns that are angles: names or numbers (in radians), or name → period.
            units: Unit of a column, by name; "reward" may have one too.
            bounds: Lowest and highest value of a state or action column, by name.
            levels: The only values of an action that is not continuous, by name: `{"pump": (0, 1)}`.
            exogenous: States that no action moves, by name: "log" if they move in rollouts as in the log (a
                list of names means that), "hold" if they stay.
            interval: Seconds between two rows.
            initial_states: States in which the controller will start; see `start_rows` if absent.
            weights: Number of transitions that each row counts for, positive; one if absent.
            begins: Flags of the rows in which the task starts; see `start_rows` if absent.
        """
        s, a = as_matrix("states", states), as_matrix("actions", actions)
        formula, rewards = (rewards, np.zeros(len(s))) if isinstance(rewards, str) else (None, rewards)
        given: dict[str, Any] = {
            "states": s,
            "actions": a,
            "rewards": as_vector("rewards", rewards),
            "next_states": as_matrix("next_states", next_states),
            "terminated": as_flags("terminated", terminated, len(s)),
            "truncated": as_flags("truncated", truncated, len(s)),
            "episodes": None if episodes is None else as_episodes(episodes),
            "weights": None if weights is None else as_vector("weights", weights),
            "begins": None if begins is None else as_flags("begins", begins, len(s)),
        }
        if begins is not None and initial_states is not None:
            raise ArgumentError("begins and initial_states are given; give one of them")
        rows = {name: part.numpy() for name, part in given.items() if part is not None}
        check_rows(rows)
        rows["truncated"] &= ~rows["terminated"]
        if episodes is None:
            ended = rows["terminated"] | rows["truncated"]
            numbers = flagged_episodes(rows["states"], rows["next_states"], ended)
            rows |= {} if numbers is None else {"episodes": numbers}
        names = name_columns(state_names, action_names, (s.shape[1], a.shape[1]))
        declared: dict[str, Any] = {"angles": angles, "units": units, "bounds": bounds, "levels": levels}
        schema = declared_schema(names, **declared, exogenous=exogenous, interval=interval)
        data = assemble(rows, schema, finite_rows(rows, names))
        data = data if initial_states is None else data.starting_at(initial_states)
        return data if formula is None else data.with_reward(formula)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        num_states, num_actions = self.states.shape[1], self.actions.shape[1]
        episodes = "no episodes" if self.episodes is None else _count(len(self.episodes.unique()), "episode")
        ranges = [
            f"{name} ∈ [{column.min():.4g}, {column.max():.4g}]"
            + (" (angle)" if name in self.schema.angles else "")
            for name, column in self._columns
            if name not in self.schema.derived
        ]
        counted = "" if self.weights is None else f" for {float(self.weights.sum()):.6g} transitions"
        return (
            f"Transitions({_count(len(self), 'row')}{counted}: {_count(num_states, 'state column')}, "
            f"{_count(num_actions, 'action column')}; {int(self.terminated.sum())} terminated, "
            f"{int(self.truncated.sum())} truncated, {episodes};\n  {', '.join(ranges)})"
        )

    @property
    def features(self) -> torch.Tensor:
        """States as the kernels see them, shape (n, d_f)."""
        return self.schema.encode(self.states)

    @property
    def next_features(self) -> torch.Tensor:
        """Next states as the kernels see them, shape (n, d_f)."""
        return self.schema.encode(self.next_states)

    @property
    def constant_columns(self) -> tuple[str, ...]:
        """Names of the state and action columns that hold one value only."""
        return tuple(name for name, column in self._columns[:-1] if bool((column == column[0]).all()))

    @property
    def continues(self) -> torch.Tensor:
        """Whether each row continues the row before it in its episode, which has not ended; shape (n,)."""
        found = torch.zeros(len(self), dtype=torch.bool)
        found[1:] = (self.next_states[:-1] == self.states[1:]).all(dim=1)
        found[1:] &= ~(self.terminated | self.truncated)[:-1]
        if self.episodes is not None:
            found[1:] &= self.episodes[1:] == self.episodes[:-1]
        return found

    @property
    def start_kind(self) -> StartKind:
        """What the starts are: declared states, the beginnings of episodes, or every row."""
        if self.initial_states is not None:
            return "declared"
        if self.begins is not None:
            return "rows" if bool(self.begins.all()) else "episodes"
        numbers = self.episodes
        if numbers is None or (bool((numbers == numbers[0]).all()) and not bool(self.terminated[-1])):
            return "rows"
        return "episodes"

    @property
    def start_rows(self) -> torch.Tensor | None:
        """Numbers of the rows that start the task, shape (n₀,); None where the starts are declared.

        Those that `begins` marks, else the first row of every episode. Every row where there are no
        episodes, and in one recording: a single episode that does not terminate.
        """
        if self.initial_states is not None:
            return None
        if self.begins is not None:
            return self.begins.nonzero()[:, 0]
        if self.episodes is None or self.start_kind == "rows":
            return torch.arange(len(self))
        return torch.as_tensor(np.unique(self.episodes.numpy(), return_index=True)[1])

    @property
    def starts(self) -> torch.Tensor:
        """States the task starts in, shape (n₀, d_s): as declared, else those of the `start_rows`."""
        if len(found := self._starts) == 0:
            what = "the task starts in no row of the log; declare where the controller will start"
            raise DataError(f"{what}: data.starting_at(…)")
        return found

    @property
    def _starts(self) -> torch.Tensor:
        if self.initial_states is not None:
            return self.initial_states
        return self.states[self.start_rows]

    @property
    def reward_function(self) -> RewardFormula | None:
        """The reward as a function of states, actions and next states, where it is a formula."""
        return None if self.schema.reward is None else RewardFormula(self.schema.reward, self.schema)

    def with_reward(self, formula: str) -> Transitions:
        """Return the dataset with a reward that models compute and need not learn.

        Args:
            formula: Such as `"-(level - 1) ** 2 - 0.1 * valve ** 2"`: names of states and actions,
                `next(level)` for the state that a step led to, `diff(level)` for its change in the step, an
                angle's the short way round, `diff(valve)` for the change of an action since the step before
                (its lag becomes a state; see `derive`), numbers, `+ - * / **`, abs, min, max, sqrt, exp, log,
                sin, cos, tanh, and conditions, which count as 1 or 0. A name that is no word stands between
                backquotes. Quantities of different declared units are not added or compared.

        Example:
            >>> data = Transitions.from_arrays([0.0, 1.0], [1.0, -1.0], [0.0, 0.0], [1.0, 0.5],
            ...                                state_names=["level"], action_names=["valve"])
            >>> data.with_reward("-next(level) ** 2 - 10 * (valve > 0)").rewards.tolist()
            [-11.0, -0.25]
        """
        logged = self.derive(lags=actions_before(formula, self.schema))
        found = replace(logged, schema=replace(logged.schema, reward=formula))
        function = found.reward_function
        assert function is not None
        rewards = function(found.states, found.actions, found.next_states)
        if not bool((finite := rewards.isfinite()).all()):
            row = int((~finite).nonzero()[0])
            raise DataError(f"the reward {formula!r} is {rewards[row]:g} at row {row}; check its columns")
        found = replace(found, rewards=rewards.clone())
        check_numbers(found)
        return found

    def derive(
        self,
        *,
        lags: Mapping[str, int] | None = None,
        integrals: Mapping[str, str] | None = None,
        formulas: Mapping[str, tuple[str, str]] | None = None,
    ) -> Transitions:
        """Return the dataset with further state columns that are computed from others.

        They travel with a controller: models and rollouts compute them, as does the controller at runtime.
        Rows without enough rows before them in their episode are dropped; a start in one of them moves to the
        next row of its run, which `repairs` counts. An integral begins with 0 in the first row of an episode.
        Declared starts have lags of their own value, the mean logged action before, and integrals of 0.

        Args:
            lags: Number of earlier values of a state or action, by name: `{"valve": 2}` adds `valve_lag1`
                and `valve_lag2`.
            integrals: Sums over time of formulas, by name: `{"total": "level - setpoint"}`. Times are in
                seconds if the sampling interval is known, else in steps.
            formulas: Any other columns, by name: the formula of the value at a start, and that of the next
                value from the row before, as in `Schema.derived`.

        Example:
            >>> data = Transitions.from_arrays([1.0, 2.0, 4.0], [0.5, 0.6, 0.7], [0.0] * 3, [2.0, 4.0, 8.0],
            ...                                state_names=["level"], action_names=["valve"])
            >>> late = data.derive(lags={"valve": 1}, integrals={"total": "level - 1"})
            >>> late.schema.states
            ('level', 'valve_lag1', 'total')
            >>> late.states.tolist()
            [[2.0, 0.5, 0.0], [4.0, 0.6, 1.0]]
        """
        names = self.schema.actions
        rest = dict(zip(names, self.actions.mean(dim=0).tolist(), strict=True))
        schema = derived_schema(
            self.schema,
            rest,
            lags=lags or {},
            integrals=integrals or {},
            formulas=formulas or {},
        )
        if schema == self.schema:
            return self
        derived, width = DerivedColumns.of(schema), len(schema.measured)
        follows = self.continues.numpy()
        measured, following = (part[:, :width].numpy() for part in (self.states, self.next_states))
        actions = self.actions.numpy()
        states, place = derived_states(derived, measured, actions, follows)
        after = derived.following(states, actions, following)
        after[:-1][follows[1:]] = states[1:][follows[1:]]
        keeps = place >= derived.depth
        if not keeps.any():
            raise DataError(
                f"no row has {derived.depth} rows before it in its episode; use fewer lags, or declare the "
                "episodes and next states such that rows follow each other"
            )
        declared = self.initial_states
        found = replace(
            self,
            states=torch.as_tensor(states),
            next_states=torch.as_tensor(after),
            schema=schema,
            initial_states=None
            if declared is None
            else torch.as_tensor(derived.first(declared[:, :width].numpy())),
        )
        return _kept(found, keeps, follows)

    def starting_at(self, initial_states: ArrayLike) -> Transitions:
        """Return the dataset with declared starts: raw states (n₀, d_s), or one state (d_s,).

        Derived columns may be left out.
        """
        return replace(self, initial_states=as_starts(initial_states, self.schema), begins=None)

    def with_starts(self, starts: torch.Tensor) -> Transitions:
        """Return the dataset as it is if the task starts in these raw states (n₀, d_s), else declare them."""
        return self if torch.equal(self._starts, starts) else self.starting_at(starts)

    def take(self, rows: torch.Tensor) -> Transitions:
        """Return the dataset of the given rows (indices or a mask), in that order."""
        parts: dict[str, Any] = {name: part[rows] for name, part in self.rows.items()}
        if len(parts["states"]) == 0:
            raise DataError(f"none of the {len(self)} rows is taken; take at least one transition")
        return replace(self, **parts)

    @property
    def rows(self) -> dict[str, torch.Tensor]:
        """The fields that have an entry per row, by name."""
        return {name: part for name in _PER_ROW if (part := getattr(self, name)) is not None}

    @property
    def _columns(self) -> list[tuple[str, torch.Tensor]]:
        """States, actions and the reward."""
        walk = columns_of(self.rows, (self.schema.states, self.schema.actions))
        return [(name, column) for role, name, column in walk if role in ("states", "actions", "rewards")]


def assemble(
    rows: Mapping[str, Any], schema: Schema, usable: BoolArray, *, repairs: Repairs | None = None
) -> Transitions:
    """Return the dataset of the usable ones of rows, checked; arrays by name of a field."""
    if not bool(usable.all()):
        rows = {name: part[usable] for name, part in rows.items()}
    tensors: dict[str, Any] = {name: torch.from_numpy(part) for name, part in rows.items()}
    data = Transitions(schema=schema, repairs=repairs or Repairs(), **tensors)
    check_levels(data.actions, schema.actions, schema.levels)
    check_numbers(data)
    return data


def _kept(data: Transitions, keeps: BoolArray, follows: BoolArray) -> Transitions:
    """Return the rows that are kept; a start in another row moves to the next one of its episode that is."""
    import pandas as pd

    kind, starts, found = data.start_kind, data.start_rows, data.take(torch.as_tensor(keeps))
    if starts is None:
        return found
    if kind == "rows":
        every = torch.ones(len(found), dtype=torch.bool)
        return found if found.start_kind == "rows" else replace(found, begins=every)
    owners = np.cumsum(~follows, dtype=np.int64)
    if data.begins is None and data.episodes is not None:
        owners = data.episodes.numpy()
    before = starts.numpy()
    places = pd.Series(np.where(keeps, np.arange(len(data)), np.nan))
    later = places.groupby(owners).bfill().fillna(-1).astype(np.int64).to_numpy()[before]
    begins = torch.zeros(len(data), dtype=torch.bool)
    begins[torch.from_numpy(later[later >= 0])] = True
    if data.begins is not None or found.start_kind == "rows":  # a single episode is left
        found = replace(found, begins=begins[torch.as_tensor(keeps)])
    return replace(found, repairs=found.repairs + Repairs(notes=moved_starts(before, later)))


def check_numbers(data: Transitions) -> None:
    """Refuse a log with numbers that floats cannot compute with."""
    walk = columns_of(data.rows, (data.schema.states, data.schema.actions))
    labels = {"rewards": "the reward", "weights": "the weight"}
    check_magnitudes(data.schema, ((labels.get(role, name), column) for role, name, column in walk))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
