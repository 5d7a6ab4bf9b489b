"""Tables of named columns: pandas in, pandas out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._assembly import transitions_of
from nopg.data._columns import Columns, Roles, Settings, resolve_roles, split
from nopg.data._numbers import as_episode_numbers, as_flag_column, as_number_column, as_seconds
from nopg.data._recording import Recording
from nopg.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

    from nopg.data._transitions import Transitions

__all__ = ["from_dataframe", "from_table", "named_columns", "to_dataframe"]

_Table = dict[str, npt.NDArray[Any]]
# Other parts may hold any number that a file gives; those we invent beside them begin here.
_BEYOND_GIVEN_NUMBERS = 1 << 62


def from_dataframe(frame: pd.DataFrame, source: str = "the table", **columns: Unpack[Columns]) -> Transitions:
    """Return the transitions of a data frame; `Transitions.from_dataframe` says what the columns mean."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error

    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"frame is a {type(frame).__name__}; give a pandas DataFrame")
    available = [str(name) for name in frame.columns]
    if repeated := sorted({name for name in available if available.count(name) > 1}):
        raise DataError(f"{source}: columns {repeated} stand there twice; rename or drop one of each")

    roles_given, settings = split(columns)
    roles = resolve_roles(available, source, **roles_given)
    table = {name: _values(frame.iloc[:, available.index(name)]) for name in roles.needed}
    return from_table(table, roles, source, settings)


def from_table(
    table: _Table,
    roles: Roles,
    source: str,
    settings: Settings,
    *,
    breaks: tuple[int, ...] = (),
    part_from: int | None = None,
) -> Transitions:
    """Return the transitions of named columns whose roles are known; the table is emptied on the way.

    Args:
        table: The columns.
        roles: What they are.
        source: What to call the table in errors.
        settings: What the user says of it.
        breaks: Rows at which another file starts.
        part_from: The first row of a part among all rows, where the table is only a part.
    """
    rows = len(table[roles.reward])

    def numbers(names: tuple[str, ...]) -> npt.NDArray[np.float64]:
        block = np.empty((rows, len(names)))
        for k, name in enumerate(names):
            block[:, k] = as_number_column(table.pop(name), name, source)
        return block

    def flag(name: str | None) -> npt.NDArray[np.bool_] | None:
        return None if name is None else as_flag_column(table[name], name, source)

    episode, time = roles.episode, roles.time
    episodes, invented_from = None, part_from or 0
    if episode is not None:
        episodes = as_episode_numbers(table[episode], episode, source)
        if table[episode].dtype.kind not in "iubf":
            episodes += invented_from  # names are numbered as they come
        elif part_from is not None:
            invented_from += _BEYOND_GIVEN_NUMBERS
    terminated, truncated = flag(roles.terminated), flag(roles.truncated)
    if (done := flag(roles.done)) is not None:
        terminated = done if truncated is None else done & ~truncated
    recording = Recording(
        source=source,
        states=numbers(roles.states),
        actions=numbers(roles.actions),
        rewards=numbers((roles.reward,)).reshape(-1),  # a copy: the table may change later
        names=(roles.states, roles.actions),
        next_states=None if roles.next_states is None else numbers(roles.next_states),
        terminated=terminated,
        truncated=truncated,
        episodes=episodes,
        seconds=None if time is None else as_seconds(table[time], time, source),
        weights=None if roles.weight is None else numbers((roles.weight,)).reshape(-1),
        breaks=breaks,
        invented_from=invented_from,
    )
    return transitions_of(recording, **settings)


def named_columns(data: Transitions) -> dict[str, npt.NDArray[Any]]:
    """Return every column of a dataset under the name it has in a table."""
    states, actions = data.schema.states, data.schema.actions
    names = [*states, *actions, "reward", *(f"next_{name}" for name in states), "terminated", "truncated"]
    values = [*data.states.T, *data.actions.T, data.rewards, *data.next_states.T]
    values += [data.terminated, data.truncated]
    if data.episodes is not None:
        names, values = [*names, "episode"], [*values, data.episodes]
    if data.weights is not None:
        names, values = [*names, "weight"], [*values, data.weights]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"a table would hold {repeated} twice; give the state and action columns other names")
    return {name: value.numpy() for name, value in zip(names, values, strict=True)}


def to_dataframe(data: Transitions) -> pd.DataFrame:
    """Return a frame with a row per transition, its next state under `next_…`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
    return pd.DataFrame(named_columns(data))


def _values(column: pd.Series[Any]) -> npt.NDArray[Any]:
    """Return a column as plain numpy, dates in UTC, missing values as NaN, NaT or None."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M" and getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if kind in "iufb" and column.hasnans:  # pandas' own types know missing values in whole numbers
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy())
