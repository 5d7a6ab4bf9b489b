"""Tables: data frames, named columns to a recording, a dataset to named columns, columns of Arrow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from nopg._columns import Derived
from nopg.data._checks import Source, columns_of
from nopg.data._repairs import Repairs
from nopg.data._schema import name_columns
from nopg.data._transitions import Transitions
from nopg.data.io._cells import Array, episode_column, flag_column, number_column, time_column
from nopg.data.io._clock import TIME_UNITS, Recording
from nopg.data.io._files import extra
from nopg.data.io._roles import Columns, Roles, Settings, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Table = dict[str, Array]
# Other parts may hold any number that a file gives; new numbers beside them begin here.
_BEYOND_GIVEN_NUMBERS = 1 << 62
# Seconds: later times, counted from 1970 or from anywhere, are in another unit.
_LATEST = 1e11
KEY = "nopg"
"""Under which a Parquet file holds the schema of a dataset."""


def from_dataframe(frame: Any, **columns: Unpack[Columns]) -> Transitions:
    """Read a table of pandas, or of any library that speaks Arrow (Polars, pyarrow, DuckDB), by role.

    Roles that are not given are looked up under their usual names (`next_<state>`, `terminated` or
    `terminals`, `truncated` or `timeouts`, `episode`), which is logged; False means that there is none. A
    lone `done` counts as terminated, with a logged warning; next to a truncated flag it counts where that
    flag is not set. Rows with both flags are terminated.

    Without next-state columns a row's next state is that of the next row of its episode, which ends where the
    episode column changes, at a flag, and at a gap in time. A terminated row is a transition even if its
    final state was not recorded. The last row of any other episode holds only the final state; the row before
    it is truncated. `Transitions.repairs` counts all that was repaired.

    Args:
        frame: One row per step, in order of time inside every episode.
        columns: The roles:

            - `states`, `actions`: lists of columns; `T=TIC4711.PV [°C]` gives a column the name T.
            - `reward`: a column, or a formula as in `Transitions.with_reward`.
            - `next_states`: columns in the order of `states`, or "shift" to use the next row in any case.
            - `terminated`, `truncated`: flags: the task ended, only the recording ended.
            - `episode`: numbers or names of the episodes.
            - `time`: dates, text such as `31.03.2024 12:00`, or numbers, in seconds unless
              `units` has `{"time": "ms"}`, "s", "min" or "h". The last of equal ones counts.
            - `weight`: number of transitions that a row counts for; never looked up by name.
            - `begins`: flags of the rows in which the task starts; never looked up by name.

            And the settings:

            - `na`: further words or numbers for a missing value besides `nopg.data.io.MISSING_WORDS`.
            - `time_format`: such as `%d/%m/%Y %H:%M`, if the column does not show it.
            - `angles`, `units`, `bounds`, `levels`, `exogenous`, `initial_states`: as in
              `Transitions.from_arrays`; exogenous names that are no states yet are added to them.
            - `interval`: seconds between two rows; by default the median step in time.
            - `resample`: None to use the rows as they are; "hold" (the last value) or "mean" (of states over
              the interval before, of actions and rewards over the one after) for a regular grid.
            - `gap_factor`: a step longer than this many intervals is no transition and ends the run of rows;
              1.5 by default, and 5 with `resample`.
            - `missing`: a rule for missing and infinite values, for all columns or by name: "refuse"; "drop"
              their rows; "hold 5", the last value over up to five successive rows; "interpolate 3". Without a
              number as many rows as `gap_factor`, here 5 by default, times the usual distance of the column's
              values. Longer stretches end the episode. By default "hold" with a time column, else "refuse". A
              controller holds a state for as many steps where its rule was declared or used, also instead of
              an interpolation.
            - `starts`: "episodes", the first row of every episode of the log (not those after gaps), or
              "rows", every row: the default for one long recording, with a single beginning and no terminated
              row at the end.

    Example:
        >>> import pandas as pd
        >>> log = pd.DataFrame({"level": [1, 2, 3], "valve": [0.1, 0.2, 0.3], "gain": [0, 1, 2]})
        >>> from_dataframe(log, states=["level"], actions=["valve"], reward="gain")
        Transitions(2 rows: 1 state column, 1 action column; 0 terminated, 1 truncated, 1 episode;
          level ∈ [1, 2], valve ∈ [0.1, 0.2], reward ∈ [0, 1])
    """
    import pandas as pd

    source = Source("the table")
    if not isinstance(frame, pd.DataFrame) and not hasattr(frame, "__arrow_c_stream__"):
        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if isinstance(frame, pd.DataFrame):
        names, metadata = [str(name) for name in frame.columns], None
    elif hasattr(frame, "__arrow_c_stream__"):
        frame = extra("pyarrow").table(frame)
        names, metadata = [str(name) for name in frame.column_names], frame.schema.metadata
    else:
        raise DataError(
            f"frame is a {type(frame).__name__}; give a table of pandas, Polars, pyarrow or DuckDB (a Polars "
            "LazyFrame after .collect())"
        )
    if repeated := sorted(name for name, number in Counter(names).items() if number > 1):
        raise DataError(f"{source}: columns {repeated} appear twice; rename or drop one of each")
    given, settings = split_arguments(completed(columns, metadata, str(source)), Columns)
    roles = resolve_columns(names, str(source), **given)
    table = {
        name: plain_values(frame.iloc[:, names.index(name)])
        if isinstance(frame, pd.DataFrame)
        else plain_column(frame.column(name), name, str(source))
        for name in roles.needed
    }
    return transitions_of(table, roles, source, settings)


def to_dataframe(data: Transitions) -> pd.DataFrame:
    """Return a pandas table: columns by name, `reward`, `next_…`, flags, `episode`, `weight`, `begins`."""
    import pandas as pd

    return pd.DataFrame(named_columns(data))


def named_columns(data: Transitions) -> Table:
    """Return every column of a dataset under the name it has in a table."""
    walk = columns_of(data.rows, (data.schema.states, data.schema.actions))
    columns = [(f"next_{name}" if role == "next_states" else name, values) for role, name, values in walk]
    labels = {name: name for name in ("terminated", "truncated", "begins")} | {"episodes": "episode"}
    columns += [(labels[name], part) for name, part in data.rows.items() if name in labels]
    names = Counter(name for name, _ in columns)
    if repeated := sorted(name for name, number in names.items() if number > 1):
        raise DataError(f"a table would hold {repeated} twice; give the state and action columns other names")
    return {name: values.numpy() for name, values in columns}


def transitions_of(
    table: Table,
    roles: Roles,
    source: Source,
    settings: Settings,
    *,
    file_starts: Sequence[int] = (),
    part_start: int | None = None,
    notes: tuple[str, ...] = (),
) -> Transitions:
    """Return the transitions of the needed columns of a table, which loses those of numbers to save memory.

    `file_starts` are rows at which another file starts; `part_start` is the first row of a part among all
    rows, None for the whole.
    """
    rows, single = Table(), roles.single
    flags = {
        role: flag_column(table[single[role]], single[role], source)
        for role in ("terminated", "truncated", "done", "begins")
        if role in single
    }
    first_new = part_start or 0
    if name := single.get("episode"):
        rows["episodes"] = episode_column(table[name], name, source)
        if table[name].dtype.kind not in "iubf":
            rows["episodes"] += first_new  # names are numbered in order of appearance
        elif part_start is not None:
            first_new += _BEYOND_GIVEN_NUMBERS
    if name := single.get("time"):
        times, dated, said = time_column(table[name], name, source, roles.cells)
        rows["times"] = times * _unit_of_time(roles, settings, dated=dated)
        if (latest := float(np.abs(rows["times"]).max(initial=0.0))) > _LATEST:
            what = f"column {name!r} reaches {latest:.3g} s, {latest / 3.15e7:.2g} years"
            raise DataError(f"{source}: {what}; state its unit, such as units={{'time': 'ms'}}")
        notes += tuple(f"{name}: {note}" for note in said)
    numbers, words = _numbers(table, roles, source, whole=part_start is None)
    none = np.zeros(len(numbers["states"]))
    rows |= {"rewards": none.copy(), **numbers}
    cut = flags.get("truncated", none > 0)
    rows |= {"terminated": flags.get("terminated", flags.get("done", none > 0) & ~cut), "truncated": cut}
    rows |= {"begins": flags["begins"]} if "begins" in flags else {}
    log = Recording(
        source,
        name_columns(*roles.names, (len(roles.states), len(roles.actions)), f"{source}: "),
        rows,
        file_starts=tuple(file_starts),
        new_episodes_from=first_new,
        formula=roles.formula,
        reward_name=single.get("reward", "reward"),
        repairs=Repairs(words, notes),
    )
    return to_transitions(log, **settings)


def _numbers(table: Table, roles: Roles, source: Source, *, whole: bool) -> tuple[Table, dict[str, int]]:
    """Return the numbers of states, actions and so on, and how often which word was read as what."""
    found, words = Table(), dict[str, int]()
    columns = {"states": roles.states, "actions": roles.actions, "next_states": roles.next_states or ()}
    columns |= {f"{role}s": (roles.single[role],) for role in ("reward", "weight") if role in roles.single}
    for role, names in columns.items():
        for k, name in enumerate(names):
            values, counts = number_column(table.pop(name), name, source, roles.cells)
            missing = int(np.isnan(values).sum())
            if empty := missing - sum(count for what, count in counts.items() if what.startswith("missing")):
                counts["empty"] = empty
            if missing == len(values) > 0 and whole:
                what = ", ".join(f"{count} × {what}" for what, count in counts.items())
                raise DataError(f"{source}: column {name!r} holds no number at all ({what}); leave it out")
            words |= {f"{name}: {what}": count for what, count in counts.items()}
            block = found.setdefault(role, np.empty((len(values), len(names))))
            block[:, k] = values
    for role in {"rewards", "weights"} & found.keys():
        found[role] = found[role][:, 0]
    return found, words


def _unit_of_time(roles: Roles, settings: Settings, *, dated: bool) -> float:
    """Return the seconds in the unit of the time, which is taken out of the settings."""
    units, columns = dict(settings.get("units") or {}), {*roles.names[0], *roles.names[1]}
    given = [name for name in (roles.single["time"], "time") if name in units]
    settings["units"] = {name: one for name, one in units.items() if name not in given or name in columns}
    if not given or dated:
        return 1.0
    if (unit := units[given[0]]) not in TIME_UNITS:
        known = ", ".join(TIME_UNITS)
        raise DataError(f"the unit of the time is {unit!r}; give one of {known}: units={{'time': 's'}}")
    return TIME_UNITS[unit]


def plain_values(column: pd.Series[Any]) -> Array:
    """Return a column as plain numpy, dates in UTC, missing values as NaN, NaT or None."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M" and getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if kind in "iufb" and column.hasnans:  # pandas' own integer types have missing values
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy())


def completed(columns: Mapping[str, Any], metadata: Any, source: str) -> dict[str, Any]:
    """Return the arguments, completed by the file's own description if no columns are named."""
    described = (metadata or {}).get(KEY.encode())
    if described is None or columns.get("states") is not None or columns.get("actions") is not None:
        return dict(columns)
    try:
        known: dict[str, Any] = json.loads(described)
        own = {name: value for name, value in known.items() if name in Columns.__annotations__} | {
            "states": [str(name) for name in known["states"]],
            "actions": [str(name) for name in known["actions"]],
            "bounds": dict(known["bounds"]),
            "reward": known.get("reward") or "reward",
            "derived": {name: Derived(*one) for name, one in known.get("derived", {}).items()},
            "weight": "weight" if known.get("weighted") else None,
            "begins": "begins" if known.get("marked") else None,
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{source}: the description stored under {KEY!r} is damaged ({error}); name the columns yourself"
        ) from error
    absent = (None, False) if columns.get("reward") is False else (None,)
    return own | {name: value for name, value in columns.items() if value not in absent}


def plain_column(column: Any, name: str, source: str) -> Array:
    """Return a column of Arrow as numpy: numbers, flags, times or text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"{source}: column {name!r} holds {kind}; a column must hold one number per row")
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string()).cast(pa.float64())  # straight to float64 would round twice
    if pa.types.is_dictionary(kind):  # of text that numpy does not know, where it comes from Polars
        return plain_values(column.to_pandas())
    # Arrow would put the chunks together in memory that it keeps.
    chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.asarray(column.to_numpy())
