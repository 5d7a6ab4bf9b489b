"""Measurements of single parts of nopg: each module has `measure` and `page`, or `draw`."""

import os
from importlib import import_module
from pathlib import Path

from nopg._files import provenance
from nopg.inspect._wording import count_of
from studies.printing import say
from studies.records import FOLDER, Record, append, code_version

__all__ = ["MEASUREMENTS", "measure"]

MEASUREMENTS = ("latency", "promise")
"""The modules, and the names of their records and pages."""


def measure(name: str, folder: Path = FOLDER) -> None:
    """Run a measurement; every case is appended to the records and printed when it is done.

    The load of the machine before it is printed and kept: times that others disturbed are no times.
    """
    load = round(os.getloadavg()[0], 2)
    say(f"load of the machine before: {load} on {count_of(os.cpu_count() or 1, 'core')}")
    module = import_module(f"studies.measurements.{name}")
    setup = {"versions": provenance(getattr(module, "LIBRARIES", ()))["versions"], "load": load}
    for case in module.measure():
        record = Record(study=name, commit=code_version("src/nopg"), setup=setup, **case)
        append(record, folder)
        case_name = ", ".join(str(part) for part in (record.benchmark, record.method, record.rows) if part)
        say(f"{case_name}: {str(dict(record.results))[:2000]}")
