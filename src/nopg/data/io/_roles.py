"""Which column of a table, or which array of a file, plays which role: as given, else by its usual name."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, cast

from nopg._columns import NO_REWARD, Derived, Exogenous
from nopg._typing import ArrayLike
from nopg.data._schema import exogenous_kinds
from nopg.data.io._cells import CellFormat
from nopg.data.io._missing import Missing
from nopg.data.io._resample import Resample
from nopg.errors import DataError

_log = logging.getLogger(__name__)

Starts = Literal["episodes", "rows"]
"""Which rows are starts of the task: the first of every episode, or all of them."""

# Minari's names, D4RL's, and those of common loggers.
_USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "states": ("observations", "states"),
    "actions": ("actions",),
    "reward": ("rewards", "reward"),
    "next_states": ("next_observations", "next_states"),
    "terminated": ("terminated", "terminations", "terminals", "terminal"),
    "truncated": ("truncated", "truncations", "timeouts", "timeout"),
    "episode": ("episode", "episodes", "episode_id"),
    "done": ("done", "dones"),
}


class Settings(TypedDict, total=False):
    """Arguments of every reader, whatever the format."""

    angles: Mapping[str, float] | Sequence[str | int] | None
    units: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float, float]] | None
    derived: Mapping[str, Derived] | None
    exogenous: Mapping[str, Exogenous] | Sequence[str] | None
    interval: float | None
    resample: Resample | None
    missing: Missing | None
    hold: Mapping[str, int] | None
    levels: Mapping[str, Sequence[float]] | None
    initial_states: ArrayLike | None
    starts: Starts | None
    gap_factor: float


class Columns(Settings, total=False):
    """The columns of a table by role, and the settings; a reward of False is none if the file has none."""

    states: str | Sequence[str] | None
    actions: str | Sequence[str] | None
    reward: str | Literal[False] | None
    next_states: str | Sequence[str] | None
    terminated: str | Literal[False] | None
    truncated: str | Literal[False] | None
    episode: str | Literal[False] | None
    time: str | None
    weight: str | None
    begins: str | None
    na: Sequence[str] | None
    time_format: str | None


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns (or keys) of every role; None where a role is not filled.

    `done` is a column that says "ended" without saying how. A reward that is no column is a formula. Without
    next states, rows are shifted. Without names, the columns of a matrix get the default ones. `cells` is how
    their cells are written.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str | None
    formula: str | None
    next_states: tuple[str, ...] | None
    terminated: str | None
    truncated: str | None
    done: str | None
    episode: str | None
    time: str | None
    weight: str | None
    begins: str | None
    state_names: Sequence[str] | None
    action_names: Sequence[str] | None
    cells: CellFormat = field(default_factory=CellFormat)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold real numbers."""
        single = (name for name in (self.reward, self.weight) if name is not None)
        return (*self.states, *self.actions, *(self.next_states or ()), *single)

    @property
    def others(self) -> tuple[str, ...]:
        """The columns of flags, episodes and times."""
        names = (self.terminated, self.truncated, self.done, self.begins, self.episode, self.time)
        return tuple(name for name in names if name is not None)

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that must be read, once."""
        return tuple(dict.fromkeys((*self.numbers, *self.others)))


def split_arguments(given: Mapping[str, Any], known: type) -> tuple[dict[str, Any], Settings]:
    """Return the roles and the settings apart; an argument that is neither is refused.

    Exogenous columns that are not among listed states are appended to them.
    """
    names = known.__annotations__
    if unknown := [name for name in given if name not in names]:
        raise TypeError(f"unknown argument {unknown[0]!r}; known are {sorted(names)}")
    settings = {name: value for name, value in given.items() if name in Settings.__annotations__}
    roles = {name: value for name, value in given.items() if name not in settings}
    states, kinds = roles.get("states"), exogenous_kinds(given.get("exogenous"))
    if kinds and states is not None and not isinstance(states, str):
        roles["states"] = [*states, *(name for name in kinds if name not in states)]
    return roles, cast(Settings, settings)


def resolve_columns(available: Sequence[str], source: str, **columns: Unpack[Columns]) -> Roles:
    """Return the roles of the columns of a table, all of which exist.

    Roles that are not given are looked up: `next_<state>` for every state, and the usual names of the flags
    and the episode.
    """
    states = _listed("states", columns.get("states"), source)
    actions = _listed("actions", columns.get("actions"), source)
    reward = NO_REWARD if columns.get("reward") is False else columns.get("reward")
    if not isinstance(reward, str):
        raise DataError(f"{source}: reward is {reward!r}; name the column that holds it, or give a formula")
    following = columns.get("next_states")
    usual = [f"next_{name}" for name in states]
    if following is None and set(usual) <= {*available} - {*actions, reward, columns.get("weight")}:
        _log.info("%s: columns %s are taken as next states", source, usual)
        following = usual
    next_states = None if following in (None, "shift") else _listed("next_states", following, source)
    if next_states is not None and len(next_states) != len(states):
        raise DataError(
            f"{source}: {len(states)} state columns but {len(next_states)} next-state columns "
            f"{list(next_states)}; give one for each, in the same order, or 'shift'"
        )
    names = {"states": states, "actions": actions, "next_states": next_states, "reward": reward}
    names |= {"state_names": states, "action_names": actions}
    roles = _resolve({**columns, **names}, available, source)
    if repeated := sorted({name for name in roles.numbers if roles.numbers.count(name) > 1}):
        raise DataError(f"{source}: {repeated} is given twice; a column has one role")
    return roles


def _resolve(given: Mapping[str, Any], available: Sequence[str], source: str) -> Roles:
    """Return the roles, with flags and episode under their usual names; every column exists.

    A lone `done` does not say how an episode ended; it counts as terminated, with a warning. Next to a
    truncated flag, `done` is terminated where that flag is not set.
    """
    taken = {*given["states"], *given["actions"], given["reward"], given.get("weight"), given.get("begins")}
    free = [name for name in available if name not in taken]
    found: dict[str, Any] = {"done": None}
    for role in ("terminated", "truncated", "episode"):
        name = given.get(role)
        if name is None and (name := _usual(role, free)) is not None:
            _log.info("%s: column %r is taken as %s", source, name, role)
        found[role] = name or None
    if found["terminated"] is None and given.get("terminated") is None:
        found["done"] = _usual("done", free)
        if found["done"] is not None and found["truncated"] is None:
            hint = "if time limits set it too, give terminated=… and truncated=…"
            _log.warning("%s: column %r is taken as terminated; %s", source, found["done"], hint)
    lists = ("states", "actions", "next_states", "time", "weight", "begins", "state_names", "action_names")
    reward = given["reward"]
    is_column = reward in available or reward.isidentifier()
    found |= {"reward": reward if is_column else None, "formula": None if is_column else reward}
    values: dict[str, Any] = {name: given.get(name) for name in lists}
    roles = Roles(**values, **found, cells=CellFormat.of(given))
    if missing := [name for name in roles.needed if name not in available]:
        close = difflib.get_close_matches(missing[0], available, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        shown = _shown(available)
        raise DataError(f"{source}: there is no column {missing[0]!r}{hint} The columns are: {shown}")
    return roles


def _usual(role: str, available: Sequence[str]) -> str | None:
    return next((name for name in _USUAL_NAMES[role] if name in available), None)


def _listed(role: str, names: Sequence[str] | None, source: str) -> tuple[str, ...]:
    listed = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else ()
    if not listed or not all(isinstance(name, str) for name in listed):
        raise DataError(f"{source}: {role} is {names!r}; give the names of the columns as a list")
    return listed


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "") if names else "nothing"
