"""The doors of a dataset: every way in and out that is not plain arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from nopg._typing import ArrayLike
from nopg.data import _csv, _frames, _gymnasium, _hdf5, _minari, _npz, _parquet
from nopg.data._columns import Columns
from nopg.data._keyed import Keys

if TYPE_CHECKING:
    import pandas as pd

    from nopg.data._transitions import Transitions

__all__ = ["Doors"]

_Path = str | os.PathLike[str]


class Doors:
    """What `Transitions` can be read from and written to."""

    __slots__ = ()

    @classmethod
    def from_dataframe(cls, frame: pd.DataFrame, **columns: Unpack[Columns]) -> Transitions:
        """Read a pandas table whose columns are told apart by name.

        Roles nobody names are looked up under their usual names (`next_<state>`, `terminated` or
        `terminals`, `truncated` or `timeouts`, `episode`), which is logged; False says that there is none.
        A lone `done` counts as terminated, with a logged warning; next to a truncated flag it counts where
        that flag is not set. Rows with both flags are terminated.

        Without next-state columns a row's next state is the state of the next row of its episode. An episode
        ends where the episode column changes, at a flag, and at a jump in time. A terminated row is a
        transition even if the state it ended in was not recorded (its own state stands in; nothing depends
        on it). The last row of any other episode holds only the final state; the row before it is truncated.

        Args:
            frame: One row per step, in order of time inside every episode.
            columns: The roles:

                - `states`, `actions`: names of the columns, as lists.
                - `reward`: name of the column.
                - `next_states`: names in the order of `states`, or "shift" to use the next row in any case.
                - `terminated`, `truncated`: names of the flags: true ends, and mere ends of recording.
                - `episode`: the column that says which rows belong together: numbers or names.
                - `time`: dates or numbers that never decrease inside an episode.
                - `weight`: how many transitions a row stands for; never guessed from a name.

                And what to know about them:

                - `angles`, `units`, `bounds`, `initial_states`, `invalid`: as in `from_arrays`.
                - `gap_factor`: a step longer than this many median steps ends the episode; 5 by default.

        Example:
            >>> import pandas as pd
            >>> log = pd.DataFrame({"level": [1, 2, 3], "valve": [0.1, 0.2, 0.3], "gain": [0, 1, 2]})
            >>> Doors.from_dataframe(log, states=["level"], actions=["valve"], reward="gain")
            Transitions(2 rows: 1 state column, 1 action column; 0 terminated, 1 truncated, 1 episode;
              level ∈ [1, 2], valve ∈ [0.1, 0.2], reward ∈ [0, 1])
        """
        return _frames.from_dataframe(frame, **columns)

    @classmethod
    def from_csv(
        cls, path: _Path, *, separator: str = ",", decimal: str = ".", **columns: Unpack[Columns]
    ) -> Transitions:
        """Read a CSV file with a header line; floats are read to the bit.

        Args:
            path: A text file in UTF-8.
            separator: What stands between two fields.
            decimal: What stands before the decimals.
            columns: As in `from_dataframe`; a time is a number or a date like `2024-03-31 12:00:00`.
        """
        return _csv.from_csv(path, separator=separator, decimal=decimal, **columns)

    @classmethod
    def from_parquet(
        cls, path: _Path, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
    ) -> Transitions:
        """Read a Parquet file, or every one in a folder in the order of their names.

        Only the needed columns are read, batch by batch, so the others may exceed the memory. A new file
        starts a new episode, unless an episode or time column says where episodes end.

        A part is a run of consecutive rows; all parts together are the whole, and no two differ by more than
        one row. Row groups that hold none of its rows are not read. An episode that is cut in two is an
        episode in either part, so declare the starts if those of the episodes should count: the second half
        seems to start where it was cut. Without next-state columns the row before a cut has no next state
        and is no transition. Episodes keep the numbers that the file gives them; those that have none get
        numbers which no other part uses.

        Args:
            path: A file or a folder.
            part: Read one part only: its number, the first being 0, and how many parts there are.
            columns: As in `from_dataframe`; nothing is needed for a file that `to_parquet` wrote.
        """
        return _parquet.from_parquet(path, part=part, **columns)

    @classmethod
    def from_hdf5(cls, path: _Path, **keys: Unpack[Keys]) -> Transitions:
        """Read an HDF5 file: D4RL's keys by default, others by name.

        Links, and arrays that lie in other files, are refused.

        Args:
            path: The file.
            keys: For `states`, `actions` and `next_states` the key of a matrix or a list of keys of vectors
                (`observations`, `actions`, `next_observations` if absent); for `reward`, `terminated`,
                `truncated`, `episode`, `time`, `weight` the key of a vector (`rewards`, `terminals`,
                `timeouts`, …);
                `state_names` and `action_names`; the settings of `from_dataframe`.
        """
        return _hdf5.from_hdf5(path, **keys)

    @classmethod
    def from_npz(cls, path: _Path, **keys: Unpack[Keys]) -> Transitions:
        """Read an archive that `numpy.savez` wrote; pickles in it are never loaded.

        Args:
            path: The file.
            keys: As in `from_hdf5`.
        """
        return _npz.from_npz(path, **keys)

    @classmethod
    def from_minari(cls, dataset: Any, **settings: Any) -> Transitions:
        """Read a Minari dataset: every step is a transition, with its flags and the number of its episode.

        Whether the environment can be recovered does not matter: it is never built.

        Args:
            dataset: A `minari.MinariDataset`, the id of one on this machine, or its folder.
            settings: `keys`, the parts of a dictionary of observations to use, in order; `state_names`,
                `action_names`, `angles`, `units`, `bounds` (those of the spaces if absent),
                `initial_states`, `invalid`, as in `from_arrays`.
        """
        return _minari.from_minari(dataset, **settings)

    @classmethod
    def from_gymnasium(
        cls, env: Any, policy: Callable[[Any], ArrayLike], *, episodes: int, seed: int, **settings: Any
    ) -> Transitions:
        """Roll out a policy and keep every step, with the action that was applied.

        Args:
            env: A Gymnasium environment, or the id of one.
            policy: Maps an observation to an action; it is clipped to the bounds of the action space.
            episodes: How many, each to its end or its time limit.
            seed: Given to the first reset.
            settings: `max_steps`, a shorter time limit; the others as in `from_minari`.
        """
        return _gymnasium.from_gymnasium(env, policy, episodes=episodes, seed=seed, **settings)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table: the columns by name, `reward`, `next_…`, both flags, `episode`, `weight`."""
        return _frames.to_dataframe(cast("Transitions", self))

    def to_csv(self, path: _Path) -> None:
        """Write the columns of `to_dataframe` with 17 digits, so that every float comes back to the bit."""
        _csv.to_csv(cast("Transitions", self), path)

    def to_parquet(self, path: _Path) -> None:
        """Write the columns of `to_dataframe`, the schema and the declared starts into one file."""
        _parquet.to_parquet(cast("Transitions", self), path)

    def to_minari(
        self,
        dataset_id: str,
        *,
        data_format: Literal["hdf5", "arrow", "parquet"] = "hdf5",
        env: Any = None,
        **description: Any,
    ) -> Any:
        """Write a Minari dataset where Minari keeps them, and return it.

        Minari stores T + 1 states for T steps. Rows in which a next state is not the next row's state, and
        rows without episodes, become episodes of their own; `from_minari` puts them together again.

        Args:
            dataset_id: For example `plant/pump-v0`.
            data_format: How the numbers are stored; floats come back to the bit from each.
            env: The environment, its id or its spec, where there is one.
            description: `author`, `algorithm_name`, `description`, … of `minari.create_dataset_from_buffers`.
        """
        return _minari.to_minari(
            cast("Transitions", self), dataset_id, data_format=data_format, env=env, **description
        )
