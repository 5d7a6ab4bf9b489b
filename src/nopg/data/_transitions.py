"""Logged transitions (s, a, r, s′), validated once on entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch

from nopg._typing import ArrayLike
from nopg.data._condense import condense
from nopg.data._doors import Doors
from nopg.data._schema import Schema, resolve_angles
from nopg.data._validation import as_flags, as_matrix, as_vector, as_weights, invalid_rows
from nopg.errors import ArgumentError, DataError

__all__ = ["Transitions"]

Invalid = Literal["raise", "drop"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Transitions(Doors):
    """A dataset of n transitions; build it with `from_arrays` or another `from_…`, which validate.

    Attributes:
        states: s, raw columns, shape (n, d_s).
        actions: a, as they were applied, shape (n, d_a).
        rewards: r, shape (n,).
        next_states: s′, shape (n, d_s).
        terminated: True where s′ is a true end of the task: no value follows it. Shape (n,).
        truncated: True where only the recording ended: the value of s′ still counts. Shape (n,).
        schema: Names of the columns and the declared angles, units and bounds.
        episodes: Episode number of every row, shape (n,), or None where rows are unconnected.
        initial_states: States in which the task starts, shape (n₀, d_s), or None where nobody said.
        weights: How many transitions each row stands for, positive, shape (n,); None for one each.

    Example:
        >>> data = Transitions.from_arrays([[0.0], [1.0]], [[1.0], [-1.0]], [0.0, 1.0], [[1.0], [0.0]],
        ...                                terminated=[False, True])
        >>> data
        Transitions(2 rows: 1 state column, 1 action column; 1 terminated, 0 truncated, no episodes;
          s0 ∈ [0, 1], a0 ∈ [-1, 1], reward ∈ [0, 1])
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

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
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
        initial_states: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        invalid: Invalid = "raise",
    ) -> Transitions:
        """Validate arrays and bind them into a dataset.

        Args:
            states: One row per transition; a vector is one column.
            actions: The actions that were applied, one row per transition.
            rewards: One number per transition.
            next_states: The state each transition led to, never inferred from the next row.
            terminated: Flags of true ends; False everywhere if absent.
            truncated: Flags of mere ends of recording; where both are set, terminated wins.
            episodes: A number per row that says which rows belong together.
            state_names: Names of the state columns; `s0, s1, …` if absent.
            action_names: Names of the action columns; `a0, a1, …` if absent.
            angles: State columns that are angles: names or numbers (in radians), or name → period.
            units: Unit of a column, by name; "reward" may have one too.
            bounds: Lowest and highest value of a state or action column, by name.
            initial_states: States in which the controller will start; the first states of the
                episodes if absent.
            weights: How many transitions each row stands for, positive; one if absent.
            invalid: Refuse rows with NaN or infinities, or drop them.
        """
        check_invalid(invalid)
        s, a = as_matrix("states", states), as_matrix("actions", actions)
        r, s_next = as_vector("rewards", rewards), as_matrix("next_states", next_states)
        rows = len(s)
        _check_shapes(s, a, r, s_next)

        state_columns = _names("state_names", state_names, "s", s.shape[1])
        action_columns = _names("action_names", action_names, "a", a.shape[1])
        if shared := sorted(set(state_columns) & set(action_columns)):
            raise DataError(f"{shared} name both states and actions; make them distinct")
        ends, cuts = as_flags("terminated", terminated, rows), as_flags("truncated", truncated, rows)
        numbers = None if episodes is None else _episode_numbers(episodes, rows)
        for name, flags in (("terminated", ends), ("truncated", cuts)):
            if len(flags) != rows:
                raise DataError(f"{name} has {len(flags)} rows, states have {rows}; give one flag per row")

        data = cls(
            states=s,
            actions=a,
            rewards=r,
            next_states=s_next,
            terminated=ends,
            truncated=cuts & ~ends,
            schema=Schema(
                state_columns,
                action_columns,
                resolve_angles(angles, state_columns),
                dict(units or {}),
                dict(bounds or {}),
            ),
            episodes=numbers,
            initial_states=None if initial_states is None else _starts(initial_states, s.shape[1]),
            weights=None if weights is None else as_weights(weights, rows),
        )
        return data._without_invalid_rows(invalid)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        num_states, num_actions = self.states.shape[1], self.actions.shape[1]
        episodes = (
            "no episodes" if self.episodes is None else _count(len(set(self.episodes.tolist())), "episode")
        )
        ranges = [
            f"{name} ∈ [{column.min():.4g}, {column.max():.4g}]"
            + (" (angle)" if name in self.schema.angles else "")
            for name, column in self._columns()
        ]
        stand_for = "" if self.weights is None else f" for {float(self.weights.sum()):.6g} transitions"
        constant = "".join(f"\n  constant: {name}" for name in self.constant_columns)
        return (
            f"Transitions({_count(len(self), 'row')}{stand_for}: {_count(num_states, 'state column')}, "
            f"{_count(num_actions, 'action column')}; {int(self.terminated.sum())} terminated, "
            f"{int(self.truncated.sum())} truncated, {episodes};\n  {', '.join(ranges)}{constant})"
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
        return tuple(name for name, column in self._columns()[:-1] if bool((column == column[0]).all()))

    @property
    def starts(self) -> torch.Tensor:
        """States the task starts in: as declared, else the first row of every episode, else every state."""
        if self.initial_states is not None:
            return self.initial_states
        if self.episodes is None:
            return self.states
        _, first = np.unique(self.episodes.numpy(), return_index=True)
        return self.states[torch.as_tensor(first)]

    def starting_at(self, initial_states: ArrayLike) -> Transitions:
        """Return the dataset with these raw states (n₀, d_s), or this one (d_s,), as declared starts."""
        return replace(self, initial_states=_starts(initial_states, self.states.shape[1]))

    def take(self, rows: torch.Tensor) -> Transitions:
        """Return the dataset of the given rows (indices or a mask), in that order."""
        states = self.states[rows]
        if len(states) == 0:
            raise DataError(f"none of the {len(self)} rows is taken; take at least one transition")
        return replace(
            self,
            states=states,
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_states=self.next_states[rows],
            terminated=self.terminated[rows],
            truncated=self.truncated[rows],
            episodes=None if self.episodes is None else self.episodes[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def condense(self, num_rows: int, scale: ArrayLike | None = None) -> Transitions:
        """Return at most `num_rows` rows that stand for all, weighted by how many transitions they stand for.

        The space of (s, a, s′) is cut into cells, each time the one whose rows lie farthest from their mean,
        and a row of the result is the mean of a cell, angles by their mean direction. Rows that ended the
        task are not mixed with others. The rows of the result are unconnected; its declared starts are those
        of the data, drawn evenly where every state is one. A dataset that has no more rows is returned as it
        is.

        The bandwidths of all rows go on serving while cells are narrower than they are; with fewer rows than
        that, select them anew.

        Args:
            num_rows: m; the cost is about n log m.
            scale: The unit of each state feature and action, shape (d_f + d_a,), in which distances are
                measured; by default the median step of a state and the standard deviation of an action.

        Example:
            >>> levels, valve = [0.0, 0.2, 5.0, 5.4], [1.0, 1.0, 2.0, 2.0]
            >>> few = Transitions.from_arrays(levels, valve, [0.0, 1.0, 4.0, 4.0], levels).condense(2)
            >>> few.states[:, 0].tolist(), few.weights.tolist()
            ([0.1, 5.2], [2.0, 2.0])
        """
        return condense(self, num_rows, scale)

    def _columns(self) -> list[tuple[str, torch.Tensor]]:
        names = (*self.schema.states, *self.schema.actions, "reward")
        return list(zip(names, (*self.states.T, *self.actions.T, self.rewards), strict=True))

    def _without_invalid_rows(self, invalid: Invalid) -> Transitions:
        wrong = torch.zeros(len(self), dtype=torch.bool)
        findings: list[str] = []
        for name, tensor, columns in (
            ("states", self.states, self.schema.states),
            ("actions", self.actions, self.schema.actions),
            ("rewards", self.rewards, ("reward",)),
            ("next_states", self.next_states, self.schema.states),
            *([] if self.weights is None else [("weights", self.weights, ("weight",))]),
        ):
            rows, sentences = invalid_rows(name, tensor, columns)
            wrong, findings = wrong | rows, findings + sentences

        if not findings:
            return self
        if invalid == "raise":
            raise DataError(
                "; ".join(findings) + "; drop them with Transitions.from_arrays(…, invalid='drop')"
            )
        if bool(wrong.all()):
            raise DataError("every row holds NaN or infinities, nothing is left; " + "; ".join(findings))
        return self.take(~wrong)


def check_invalid(invalid: str) -> None:
    """Refuse a way to treat faulty rows that does not exist."""
    if invalid not in get_args(Invalid):
        raise ArgumentError(f"invalid is {invalid!r}; give one of {', '.join(get_args(Invalid))}")


def _check_shapes(s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, s_next: torch.Tensor) -> None:
    rows = {"states": len(s), "actions": len(a), "rewards": len(r), "next_states": len(s_next)}
    if len(s) == 0:
        raise DataError("the dataset is empty; give at least one transition")
    if len(set(rows.values())) > 1:
        raise DataError(
            "unequal numbers of rows: "
            + ", ".join(f"{name} {count}" for name, count in rows.items())
            + "; every transition needs its state, action, reward and next state"
        )
    if s.shape[1] != s_next.shape[1]:
        raise DataError(
            f"states have {s.shape[1]} columns, next_states {s_next.shape[1]}; give the same columns"
        )


def _names(what: str, names: Sequence[str] | None, prefix: str, count: int) -> tuple[str, ...]:
    if names is None:
        return Schema.default_names(prefix, count)
    if isinstance(names, str) or len(names) != count:
        raise DataError(f"{what} is {names!r}, but there are {count} columns; give one name per column")
    if len(set(names)) != count:
        raise DataError(f"{what} {list(names)} holds a name twice; make them distinct")
    return tuple(names)


def _episode_numbers(episodes: ArrayLike, rows: int) -> torch.Tensor:
    numbers = as_vector("episodes", episodes)
    if len(numbers) != rows:
        raise DataError(f"episodes has {len(numbers)} rows, states have {rows}; give one number per row")
    if not bool((numbers.isfinite() & (numbers == numbers.round())).all()):
        raise DataError("episodes must be whole numbers, one per row")
    # Straight from the integers: float64 would merge those beyond 2⁵³.
    return torch.as_tensor(np.asarray(episodes).astype(np.int64).reshape(-1))


def _starts(initial_states: ArrayLike, columns: int) -> torch.Tensor:
    starts = as_matrix("initial_states", initial_states)
    if np.ndim(initial_states) == 1 and columns > 1:
        starts = starts.T  # one state
    if starts.shape[1] != columns:
        raise DataError(f"initial_states have {starts.shape[1]} columns, states have {columns}")
    if not bool(starts.isfinite().all()) or len(starts) == 0:
        raise DataError("initial_states must hold at least one state and finite numbers only")
    return starts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
