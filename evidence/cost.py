"""The rows on time and memory; each size in a process of its own, on one thread."""

from __future__ import annotations

import json
import subprocess
import sys

from evidence.figure import Figure

__all__ = ["cost", "measure_in_a_process"]

_SECTION = "One update on uniformly random pendulum transitions, γ = .97, one thread, bandwidths selected"


def cost() -> list[Figure]:
    """Measure the update at 10⁴ and 10⁵ transitions."""
    small, large = measure_in_a_process(10_000, updates=50), measure_in_a_process(100_000, updates=3)
    return [
        Figure(
            _SECTION,
            "n = 10⁴: CPU seconds per update, mean of the first 50 (the authors' code: 37 to 47)",
            "≤ 0.15",
            f"{small['seconds_per_update']:.3f}; slowest {small['slowest_update']:.3f}, "
            f"{small['products_per_update']:.0f} products, K ≤ {small['candidates']:.0f}",
            small["seconds_per_update"] <= 0.15,
            "python -m evidence.update_cost 10000",
        ),
        Figure(
            _SECTION,
            "n = 10⁴: peak memory of the whole process (the authors' code: 9.4 GB)",
            "≤ 1 GB",
            f"{small['peak_gigabytes']:.2f} GB",
            small["peak_gigabytes"] <= 1.0,
            "python -m evidence.update_cost 10000",
        ),
        Figure(
            _SECTION,
            "n = 10⁵: an update runs; peak memory of the whole process",
            "≤ 1.5 GB",
            f"{large['peak_gigabytes']:.2f} GB; {large['seconds_per_update']:.1f} CPU seconds, "
            f"{large['products_per_update']:.0f} products, K ≤ {large['candidates']:.0f}",
            large["peak_gigabytes"] <= 1.5,
            "python -m evidence.update_cost 100000 --updates 3",
        ),
    ]


def measure_in_a_process(transitions: int, *, updates: int) -> dict[str, float]:
    """Return what `evidence.update_cost` measures in a fresh process."""
    command = [sys.executable, "-m", "evidence.update_cost", str(transitions), "--updates", str(updates)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(run.stdout)
    return measured
