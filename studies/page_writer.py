"""The page writer: pages and their figures from records alone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from nopg.errors import ArgumentError
from nopg.report._style import save
from studies.measurements import MEASUREMENTS
from studies.records import FOLDER, ROOT, Record, last_of_each, newest, read

__all__ = ["PAGES", "benchmark_records", "write_page"]

_FIGURES = ROOT / "docs" / "figures"

_STUDIES = (
    "advice",
    "fleet",
    "monitor",
    "large-logs",
    "many-columns",
    "planning",
    "structured",
    "trust",
)
# Studies that are packages.
_MODULES = {"trust": "studies.trust.table"}
PAGES = (
    "benchmark",
    "calibration",
    "engineers",
    "reproduction",
    *_STUDIES,
    *MEASUREMENTS,
)
"""All pages; `promise` is the picture of the README alone."""


def write_page(name: str, path: Path | None = None, folder: Path = FOLDER) -> None:
    """Write a page and draw its figures.

    Args:
        name: One of `PAGES`.
        path: The file; by default docs/benchmark.md, or NAME.md in studies/pages.
        folder: Folder of the records.
    """
    place = path or ROOT / ("docs" if name == "benchmark" else "studies/pages") / f"{name}.md"
    if name == "benchmark":
        from studies.benchmark_page import page

        text = page(benchmark_records(folder))
    elif name == "calibration":
        from studies.calibration.page import page as calibration_page

        text = calibration_page(read(folder, "calibration"))
    elif name == "engineers":
        text = _engineers(folder, draws=path is None)
    elif name in _STUDIES:
        module = import_module(_MODULES.get(name, f"studies.{name.replace('-', '_')}"))
        text = module.page(last_of_each(read(folder, name)))
    elif name == "reproduction":
        text = _reproduction(folder)
    elif name in MEASUREMENTS:
        module = import_module(f"studies.measurements.{name}")
        records = last_of_each(read(folder, name))
        if name == "promise":
            module.draw(records)
            return
        text = module.page(records)
    else:
        raise ArgumentError(f"there is no page {name!r}; choose from {', '.join(PAGES)}")
    place.write_text(text, encoding="utf-8")


def benchmark_records(folder: Path) -> list[Record]:
    """Return the records of the benchmark page."""
    from studies.plan import STUDIES

    return newest(record for study in STUDIES for record in read(folder, study))


def _engineers(folder: Path, *, draws: bool) -> str:
    from studies.engineers.page import figure, page

    records = last_of_each(read(folder, "engineers"))
    if draws:
        save(figure(records), _FIGURES / "engineers")
    return page(records)


def _reproduction(folder: Path) -> str:
    from studies.paper import EXPERIMENTS, page
    from studies.paper._run import records_of

    for name, experiment in EXPERIMENTS.items():
        if records := records_of(name, folder):
            save(experiment.draw(records), _FIGURES / name)
    return page(folder, "../../docs/figures")
