"""Which column of a table, or which array of a file, plays which role: as given, else by its usual name."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, cast

from nopg._columns import NO_REWARD, Derived, Exogenous
from nopg._typing import ArrayLike
from nopg.data._schema import exogenous_kinds
from nopg.data.io._cells import CellFormat, listed
from nopg.errors import DataError

_log = logging.getLogger(__name__)

Resample = Literal["hold", "mean"]
"""How rows are put on a regular grid of time."""

# Names of Minari, of D4RL and of common loggers.
_USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "terminated": ("terminated", "terminations", "terminals", "terminal"),
    "truncated": ("truncated", "truncations", "timeouts", "timeout"),
    "episode": ("episode", "episodes", "episode_id"),
    "done": ("done", "dones"),
}
_SINGLE = ("terminated", "truncated", "episode", "time", "weight", "begins")


class Settings(TypedDict, total=False):
    """Arguments of every reader, whatever the format."""

    angles: Mapping[str, float] | Sequence[str | int] | None
    units: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float, float]] | None
    derived: Mapping[str, Derived] | None
    exogenous: Mapping[str, Exogenous] | Sequence[str] | None
    interval: float | None
    resample: Resample | None
    missing: str | Mapping[str, str] | None
    hold: Mapping[str, int] | None
    levels: Mapping[str, Sequence[float]] | None
    initial_states: ArrayLike | None
    starts: Literal["episodes", "rows"] | None
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
    """The columns of every role; `single` those of one column, `names` what states and actions are called."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    next_states: tuple[str, ...] | None
    single: Mapping[str, str]
    formula: str | None
    names: tuple[tuple[str, ...], tuple[str, ...]]
    cells: CellFormat = field(default_factory=CellFormat)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold real numbers."""
        single = (self.single[role] for role in ("reward", "weight") if role in self.single)
        return (*self.states, *self.actions, *(self.next_states or ()), *single)

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that must be read, once."""
        return tuple(dict.fromkeys((*self.numbers, *self.single.values())))

    def units_of(self, units: Mapping[str, str]) -> dict[str, str]:
        """Return units of columns of a table by what these are called; that of the time under "time"."""
        names = {self.single[role]: role for role in ("time", "reward") if role in self.single}
        names |= zip((*self.states, *self.actions), (*self.names[0], *self.names[1]), strict=True)
        return {names[name]: unit for name, unit in units.items() if name in names}


def split_arguments(given: Mapping[str, Any], known: type) -> tuple[dict[str, Any], Settings]:
    """Return the roles, with exogenous columns among the states, and the settings apart."""
    names = known.__annotations__
    if unknown := [name for name in given if name not in names]:
        raise TypeError(f"unknown argument {unknown[0]!r}; known are {sorted(names)}")
    settings = {name: value for name, value in given.items() if name in Settings.__annotations__}
    roles = {name: value for name, value in given.items() if name not in settings}
    states, kinds = roles.get("states"), exogenous_kinds(given.get("exogenous"))
    if kinds and states is not None and not isinstance(states, str):
        listed = {name for text in states for name in (text, str(text).partition("=")[0].strip())}
        roles["states"] = [*states, *(name for name in kinds if name not in listed)]
    return roles, cast(Settings, settings)


def wanted_names(given: Mapping[str, Any]) -> set[str]:
    """Return the columns that the arguments of a reader name, by what they may be called in a table."""
    found = set[str]()
    for role in ("states", "actions", "next_states", *_SINGLE):
        value = given.get(role)
        for name in [value] if isinstance(value, str) else value if isinstance(value, Sequence) else []:
            if isinstance(name, str):
                found |= {name, name.partition("=")[2].strip()}
    return found - {"", "shift"}


def resolve_columns(available: Sequence[str], source: str, **columns: Unpack[Columns]) -> Roles:
    """Return the roles of the columns of a table, all of which exist; see `from_dataframe`."""
    known, given = set(available), cast(Mapping[str, Any], columns)
    state_names, states = _aliases(_listed("states", columns.get("states"), source), known)
    action_names, actions = _aliases(_listed("actions", columns.get("actions"), source), known)
    reward = NO_REWARD if columns.get("reward") is False else columns.get("reward")
    if not isinstance(reward, str):
        raise DataError(f"{source}: the reward is {reward!r}; name its column, or give a formula")
    single = {role: name for role in ("time", "weight", "begins") if (name := given.get(role))}
    taken = {*states, *actions, *single.values(), reward} - {single.get("time")}
    following, named = columns.get("next_states"), [f"next_{name}" for name in states]
    if following is None and {*named} <= known - taken:
        _log.info("%s: columns %s are taken as next states", source, named)
        following = named
    next_states = None if following in (None, "shift") else _listed("next_states", following, source)
    if next_states is not None and len(next_states) != len(states):
        raise DataError(
            f"{source}: {len(states)} state columns but {len(next_states)} next-state columns "
            f"{list(next_states)}; give one for each, in the same order, or 'shift'"
        )
    usual = {
        role: next((name for name in names if name in known - taken), None)
        for role, names in _USUAL_NAMES.items()
    }
    for role in ("terminated", "truncated", "episode"):
        name = given.get(role)
        if name is None and (name := usual[role]) is not None:
            _log.info("%s: column %r is taken as %s", source, name, role)
        single |= {role: name} if name else {}
    if (done := usual["done"]) is not None and "terminated" not in single and given.get("terminated") is None:
        single["done"] = done
        if "truncated" not in single:
            hint = "if time limits set it too, name the columns of terminations and truncations"
            _log.warning("%s: column %r is taken as terminated; %s", source, done, hint)
    formula = None if reward in known or reward.isidentifier() else reward
    single |= {} if formula else {"reward": reward}
    names, cells = (state_names, action_names), CellFormat.of(columns)
    roles = Roles(states, actions, next_states, single, formula, names, cells)
    if missing := [name for name in roles.needed if name not in known]:
        close = difflib.get_close_matches(missing[0], available, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise DataError(
            f"{source}: there is no column {missing[0]!r}{hint} The columns are: {listed(available)}"
        )
    if repeated := sorted({name for name in roles.numbers if roles.numbers.count(name) > 1}):
        raise DataError(f"{source}: {repeated} is given twice; a column has one role")
    return roles


def _aliases(texts: Sequence[str], known: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what columns are called, and their names in the table, of `name` or `alias=name`."""
    pairs = []
    for text in texts:
        alias, equals, column = (part.strip() for part in text.partition("="))
        pairs.append((alias, column) if text not in known and alias and equals and column else (text, text))
    return tuple(alias for alias, _ in pairs), tuple(column for _, column in pairs)


def _listed(role: str, names: Any, source: str) -> tuple[str, ...]:
    found = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else ()
    if not found or not all(isinstance(name, str) for name in found):
        raise DataError(f"{source}: {role} is {names!r}; give the names of the columns as a list")
    return found
