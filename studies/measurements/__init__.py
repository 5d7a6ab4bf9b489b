"""Measurements of single parts of nopg: each module has `measure` and `page`, or `draw`."""

from importlib import import_module
from pathlib import Path

from nopg._provenance import provenance
from studies.printing import say
from studies.records import FOLDER, Record, append, code_version

__all__ = ["MEASUREMENTS", "measure"]

MEASUREMENTS = ("bandwidths", "condense", "correctness", "latency", "neighbors", "promise")
"""The modules, and the names of their records and pages."""


def measure(name: str, folder: Path = FOLDER) -> None:
    """Run a measurement; every case is appended to the records and printed when it is done."""
    module = import_module(f"studies.measurements.{name}")
    versions = provenance(getattr(module, "LIBRARIES", ()))["versions"]
    for case in module.measure():
        record = Record(study=name, commit=code_version("src/nopg"), setup={"versions": versions}, **case)
        append(record, folder)
        case_name = ", ".join(str(part) for part in (record.benchmark, record.method, record.rows) if part)
        say(f"{case_name}: {str(dict(record.results))[:200]}")
