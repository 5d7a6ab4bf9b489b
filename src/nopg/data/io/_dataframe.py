"""Data frames: of pandas, or of any library that speaks Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._cells import Array
from nopg.data.io._files import extra
from nopg.data.io._parquet import completed, plain_column
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._tables import named_columns, plain_values, record
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def from_dataframe(frame: Any, **columns: Unpack[Columns]) -> Transitions:
    """Read a table of pandas, or of any library that speaks Arrow (Polars, pyarrow, DuckDB), by role.

    Roles that are not given are looked up under their usual names (`next_<state>`, `terminated` or
    `terminals`, `truncated` or `timeouts`, `episode`), which is logged; False means that there is none. A
    lone `done` counts as terminated, with a logged warning; next to a truncated flag it counts where that
    flag is not set. Rows with both flags are terminated.

    Without next-state columns a row's next state is the state of the next row of its episode. An episode
    ends where the episode column changes, at a flag, and at a gap in time. A terminated row is a transition
    even if its final state was not recorded (its own state is used in its place; nothing depends on it). The
    last row of any other episode holds only the final state; the row before it is truncated.

    Args:
        frame: One row per step, in order of time inside every episode.
        columns: The roles:

            - `states`, `actions`: names of the columns, as lists; `T=TIC4711.PV [°C]` gives a column the
              name T, by which formulas and settings know it.
            - `reward`: name of the column, or a formula of states and actions; see
              `Transitions.with_reward`.
            - `next_states`: names in the order of `states`, or "shift" to use the next row in any case.
            - `terminated`, `truncated`: names of the flags: the task ended, only the recording ended.
            - `episode`: the column with the number or the name of the episode.
            - `time`: dates, text such as `31.03.2024 12:00`, or numbers that never decrease inside an
              episode. Numbers count as seconds unless `units` say otherwise: `{"time": "ms"}`, "s", "min" or
              "h". Of rows with one time stamp the last value of every column counts.
            - `weight`: number of transitions that a row counts for; never looked up by name.
            - `begins`: flags of the rows in which the task starts; never looked up by name.

            And the settings:

            - `na`: further words for a missing value besides `nopg.data.io.MISSING_WORDS`, such as "Out of
              Serv", or numbers such as "-9999". `Transitions.repairs` counts every one.
            - `time_format`: how time stamps are written, such as `%d/%m/%Y %H:%M`, if the column does not
              show it.
            - `angles`, `units`, `bounds`, `levels`, `initial_states`: as in `Transitions.from_arrays`.
            - `exogenous`: states that no action moves, by name: "log" if they move in rollouts as in the log
              (a list of names means that), "hold" if they stay. Other names are added to the states.
            - `interval`: seconds between two rows; by default the median step in time.
            - `resample`: None to use the rows as they are, else how they are put on a regular grid of that
              interval: "hold" (the last value), "mean" (of states over the interval before, of actions and
              rewards over the one after), "nearest" (the nearest row).
            - `gap_factor`: a step longer than this many intervals ends the run of rows, and no transition
              goes across it; 1.5 by default, so that a dropped sample is no transition, and 5 with
              `resample`.
            - `missing`: what to do about missing and infinite values, one rule for all columns or a rule by
              name: "refuse"; "drop" their rows; "hold 5", the last value over up to five successive rows;
              "interpolate 3" between the values around up to three. Without a number as many rows as
              `gap_factor`, here 5 by default, times the usual distance of the column's values. Longer
              stretches end the episode.
              By default "hold" with a time column, else "refuse". A controller holds a state for as many
              steps where its rule was declared or used; interpolation needs a later value, so it becomes a
              hold at runtime.
            - `starts`: the rows in which the task starts: "episodes", the first row of every episode of the
              log (not those after gaps), or "rows", every row. By default the former, but "rows" for one
              long recording: a single beginning, and no terminated row at the end.

            All that was repaired is counted in `Transitions.repairs`. Columns whose labels are no text are
            named by them as text: "0".

    Example:
        >>> import pandas as pd
        >>> log = pd.DataFrame({"level": [1, 2, 3], "valve": [0.1, 0.2, 0.3], "gain": [0, 1, 2]})
        >>> from_dataframe(log, states=["level"], actions=["valve"], reward="gain")
        Transitions(2 rows: 1 state column, 1 action column; 0 terminated, 1 truncated, 1 episode;
          level ∈ [1, 2], valve ∈ [0.1, 0.2], reward ∈ [0, 1])
    """
    import pandas as pd

    source = Source("the table")
    read: Callable[[str], Array]
    if isinstance(frame, pd.DataFrame):
        names = [str(name) for name in frame.columns]
        read = lambda name: plain_values(frame.iloc[:, names.index(name)])  # noqa: E731
    elif hasattr(frame, "__arrow_c_stream__"):
        table = extra("pyarrow").table(frame)
        names = [str(name) for name in table.column_names]
        columns = completed(columns, table.schema.metadata, str(source))  # type: ignore[assignment]
        read = lambda name: plain_column(table.column(name), name, str(source))  # noqa: E731
    else:
        raise DataError(
            f"frame is a {type(frame).__name__}; give a table of pandas, Polars, pyarrow or DuckDB (a Polars "
            "LazyFrame after .collect())"
        )
    if repeated := sorted(name for name, number in Counter(names).items() if number > 1):
        raise DataError(f"{source}: columns {repeated} appear twice; rename or drop one of each")
    given, settings = split_arguments(columns, Columns)
    roles = resolve_columns(names, str(source), **given)
    return to_transitions(record(read, roles, source), **settings)


def to_dataframe(data: Transitions) -> pd.DataFrame:
    """Return a pandas table: columns by name, `reward`, `next_…`, flags, `episode`, `weight`, `begins`."""
    import pandas as pd

    return pd.DataFrame(named_columns(data))
