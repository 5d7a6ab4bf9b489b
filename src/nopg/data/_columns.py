"""Which column of a table plays which role: as the user says, else under its usual name."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from nopg._typing import ArrayLike
from nopg.errors import DataError

__all__ = ["Columns", "Roles", "Settings", "resolve_roles", "usual"]

_log = logging.getLogger(__name__)

# Minari's names, D4RL's, and what loggers write; `done` is looked up last, see `resolve_roles`.
_USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "terminated": ("terminated", "terminations", "terminals", "terminal"),
    "truncated": ("truncated", "truncations", "timeouts", "timeout"),
    "episode": ("episode", "episodes", "episode_id"),
    "done": ("done", "dones"),
}


class Settings(TypedDict, total=False):
    """What a user may say about a recording besides where its columns are."""

    angles: Mapping[str, float] | Sequence[str | int] | None
    units: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float, float]] | None
    initial_states: ArrayLike | None
    invalid: Literal["raise", "drop"]
    gap_factor: float


class Columns(Settings, total=False):
    """The roles of the columns of a table, by name, and the settings."""

    states: Sequence[str] | None
    actions: Sequence[str] | None
    reward: str | None
    next_states: Sequence[str] | Literal["shift"] | None
    terminated: str | Literal[False] | None
    truncated: str | Literal[False] | None
    episode: str | Literal[False] | None
    time: str | None
    weight: str | None


_ROLES = (
    "states",
    "actions",
    "reward",
    "next_states",
    "terminated",
    "truncated",
    "episode",
    "time",
    "weight",
)


@dataclass(frozen=True, slots=True)
class Roles:
    """The column of every role; None where a role is not filled.

    `done` holds a column that says "ended" without saying how; without next states, rows are shifted.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str
    next_states: tuple[str, ...] | None = None
    terminated: str | None = None
    truncated: str | None = None
    episode: str | None = None
    time: str | None = None
    weight: str | None = None
    done: str | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold real numbers."""
        weight = () if self.weight is None else (self.weight,)
        return (*self.states, *self.actions, self.reward, *(self.next_states or ()), *weight)

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that must be read, once."""
        others = (self.terminated, self.truncated, self.episode, self.time, self.done)
        return tuple(dict.fromkeys((*self.numbers, *(name for name in others if name is not None))))


def split(columns: Columns) -> tuple[Columns, Settings]:
    """Return the roles and the settings apart; an argument that is neither is refused."""
    unknown = [name for name in columns if name not in Columns.__annotations__]
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; known are {sorted(Columns.__annotations__)}")
    roles = {name: value for name, value in columns.items() if name in _ROLES}
    settings = {name: value for name, value in columns.items() if name not in _ROLES}
    return Columns(**roles), Settings(**settings)  # type: ignore[typeddict-item]


def resolve_roles(available: Sequence[str], source: str, **columns: Unpack[Columns]) -> Roles:
    """Return the roles of the columns, all of which exist.

    Roles nobody named are looked up: `next_<state>` for every state, and the usual names of the flags and
    the episode. A lone `done` does not say how an episode ended; it counts as terminated, with a warning.
    Next to a truncated flag, `done` is terminated where that flag is not set.
    """
    states = _names("states", columns.get("states"), source)
    actions = _names("actions", columns.get("actions"), source)
    reward = columns.get("reward")
    if not isinstance(reward, str):
        raise DataError(f"{source}: reward is {reward!r}; name the column that holds it")
    weight = columns.get("weight")
    taken = (*states, *actions, reward, *(() if weight is None else (weight,)))
    if repeated := sorted({name for name in taken if taken.count(name) > 1}):
        raise DataError(f"{source}: {repeated} is given twice; a column has one role")

    free = [name for name in available if name not in taken]
    terminated = _flag("terminated", columns.get("terminated"), free, source)
    truncated = _flag("truncated", columns.get("truncated"), free, source)
    done = None
    if terminated is None and columns.get("terminated") is None:
        done = usual("done", free)
        if done is not None and truncated is None:
            _log.warning(
                "%s: column %r is taken as terminated; if time limits set it too, give terminated=… and "
                "truncated=…",
                source,
                done,
            )
    roles = Roles(
        states=states,
        actions=actions,
        reward=reward,
        next_states=_next_states(columns.get("next_states"), states, free, source),
        terminated=terminated,
        truncated=truncated,
        episode=_flag("episode", columns.get("episode"), free, source),
        time=columns.get("time"),
        weight=weight,
        done=done,
    )
    for name in roles.needed:
        _check_exists(name, available, source)
    return roles


def usual(role: str, available: Sequence[str]) -> str | None:
    """Return the column that plays a role by its usual name, or None."""
    return next((name for name in _USUAL_NAMES[role] if name in available), None)


def _names(role: str, names: Sequence[str] | None, source: str) -> tuple[str, ...]:
    if names is None or isinstance(names, str) or len(names) == 0:
        raise DataError(f"{source}: {role} is {names!r}; give the names of the columns as a list")
    return tuple(names)


def _flag(role: str, name: str | Literal[False] | None, free: Sequence[str], source: str) -> str | None:
    if name is False:
        return None
    if name is None and (name := usual(role, free)) is not None:
        _log.info("%s: column %r is taken as %s", source, name, role)
    return name


def _next_states(
    names: Sequence[str] | None, states: tuple[str, ...], free: Sequence[str], source: str
) -> tuple[str, ...] | None:
    if names == "shift":
        return None
    if names is None:
        found = tuple(f"next_{name}" for name in states)
        if not set(found) <= set(free):
            return None
        _log.info("%s: columns %s are taken as next states", source, list(found))
        return found

    given = _names("next_states", names, source)
    if len(given) != len(states):
        raise DataError(
            f"{source}: {len(states)} state columns but {len(given)} next-state columns {list(given)}; "
            "give one for each, in the same order, or 'shift'"
        )
    return given


def _check_exists(name: str, available: Sequence[str], source: str) -> None:
    if name in available:
        return
    close = difflib.get_close_matches(name, available, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = ", ".join(map(str, available[:20])) + (", …" if len(available) > 20 else "")
    raise DataError(f"{source}: there is no column {name!r}{hint} The columns are: {shown}")
