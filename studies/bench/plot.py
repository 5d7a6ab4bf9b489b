"""The drawing of the page: seconds per update over n, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.bench.cases import Case
from studies.bench.page import Record, Records, by_threads

__all__ = ["draw"]

_COLORS = {32: "#1b6ca8", 128: "#d1641f"}


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw the records of the fewest threads there are."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "nopg"  # the same records give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    threads, found = next(iter(by_threads(records).items()), (1, {}))
    for candidates, color in _COLORS.items():
        _lines(axes, found, candidates, color)
    dense = sorted((r["transitions"], r["dense_seconds"]) for r in found.values() if r["dense"])
    if dense:
        axes.plot(*zip(*dense, strict=True), "s-", color="#444444", label="dense torch")

    axes.set(xscale="log", yscale="log", xlabel="transitions n", ylabel="seconds per update")
    axes.set_title(f"One update on the pendulum, γ = .99, float32, {threads} thread{'s' * (threads > 1)}")
    axes.grid(visible=True, which="major", alpha=0.3)
    if axes.has_data():
        axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _lines(axes: Any, records: Records, candidates: int, color: str) -> None:
    """Draw our updates and their floors at one K."""
    cases = [Case(transitions=10**power, candidates=candidates) for power in (4, 5, 6)]
    found = [records[case.name] for case in cases if case.name in records]
    sizes = [record["transitions"] for record in found]
    if found:
        seconds, floors = ([record[key] for record in found] for key in ("update_seconds", "floor_seconds"))
        axes.plot(sizes, seconds, "o-", color=color, label=f"nopg, K = {candidates}")
        axes.plot(sizes, floors, "o--", color=color, markersize=3, label=f"floor, K = {candidates}")
