"""Findings about what a reader repaired: values that were held, and the steps in time of a log."""

from __future__ import annotations

from nopg.data import Repairs
from nopg.data._repairs import GAPS, IRREGULAR, repaired_values
from nopg.inspect._findings import Finding, graded, ok, warning
from nopg.inspect._wording import count_of, duration, listed, share_of

# Beyond this share of repaired values a column says more about the rule than about the plant.
_MANY_REPAIRED = 0.2
# Beyond this share of steps that are gaps, samples are missing rather than recordings being apart.
_MANY_GAPS, _FEW_GAPS = 0.01, 5


def repaired_finding(repairs: Repairs, num_rows: int) -> Finding | None:
    """Return the finding about missing values that were held or interpolated, None where none were."""
    columns = repaired_values(repairs)
    if not columns:
        return None
    shares = {name: min(number / num_rows, 1.0) for name, number in columns.items()}
    worst = max(shares.values())
    named = [f"{name} ({share_of(share)})" for name, share in shares.items()]
    return graded(
        "missing values",
        f"repaired: {listed(named)}",
        "A value that was held is no measurement: log these columns more often, or leave them out",
        grave=False,
        minor=worst <= _MANY_REPAIRED,
    )


def sampling_finding(repairs: Repairs, interval: float | None, num_rows: int) -> Finding | None:
    """Return the finding about the steps in time that a reader found, None where time is not known."""
    if interval is None:
        return None
    every = f"a row every {duration(interval)}"
    if odd := repairs.counts.get(IRREGULAR, 0):
        share = round(min(odd / num_rows, 1.0), 2)
        return warning(
            "sampling",
            f"{every}, but {share_of(share)} of the steps differ by more than 10 %",
            "Put the rows on a regular grid with resample='hold' or 'mean' (--resample hold): a longer step "
            "looks like a stronger action",
        )
    gaps = repairs.counts.get(GAPS, 0)
    if gaps > max(_MANY_GAPS * num_rows, _FEW_GAPS):
        return warning(
            "sampling",
            f"{every}, but {share_of(gaps / num_rows)} of the steps are longer and end a run of rows",
            "Find out why samples are missing, or hold values over short gaps with resample='hold' "
            "(--resample hold)",
        )
    return ok("sampling", every + (f"; {count_of(gaps, 'gap')} between runs of rows" if gaps else ""))


def sampling_text(repairs: Repairs, interval: float | None) -> str:
    """Return the interval, and how many steps differ from it."""
    if interval is None:
        return "not known; name the time column when reading the log"
    text = f"every {duration(interval)}, {count_of(repairs.counts.get(GAPS, 0), 'gap')}"
    odd = repairs.counts.get(IRREGULAR, 0)
    return f"{text}, {count_of(odd, 'irregular step')}" if odd else text
