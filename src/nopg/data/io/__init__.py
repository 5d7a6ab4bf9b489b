"""Readers of transitions, and Parquet files of them: data frames, CSV, Parquet, Minari."""

from nopg.data.io._cells import MISSING_WORDS
from nopg.data.io._csv import read_csv
from nopg.data.io._minari import read_minari
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.data.io._tables import from_dataframe, to_dataframe

__all__ = [
    "MISSING_WORDS",
    "from_dataframe",
    "read_csv",
    "read_minari",
    "read_parquet",
    "to_dataframe",
    "write_parquet",
]
