"""Readers and writers of transitions: tables, files, databases, bags, Minari, Gymnasium, d3rlpy."""

from nopg.data.io._cells import MISSING_WORDS
from nopg.data.io._csv import read_csv, write_csv
from nopg.data.io._d3rlpy import to_d3rlpy
from nopg.data.io._dataframe import from_dataframe, to_dataframe
from nopg.data.io._excel import read_excel
from nopg.data.io._gymnasium import from_gymnasium
from nopg.data.io._hdf5 import read_hdf5
from nopg.data.io._minari import read_minari, write_minari
from nopg.data.io._npz import read_npz
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.data.io._rosbag import read_rosbag
from nopg.data.io._sql import from_sql
from nopg.data.io._table import from_table

__all__ = [
    "MISSING_WORDS",
    "from_dataframe",
    "from_gymnasium",
    "from_sql",
    "from_table",
    "read_csv",
    "read_excel",
    "read_hdf5",
    "read_minari",
    "read_npz",
    "read_parquet",
    "read_rosbag",
    "to_d3rlpy",
    "to_dataframe",
    "write_csv",
    "write_minari",
    "write_parquet",
]
