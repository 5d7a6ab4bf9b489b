"""The benchmark of nopg: plants, rivals, records of runs, and the table made from them; not in the wheel."""
