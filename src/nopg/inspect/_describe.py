"""`describe`: data-quality checks before training, as a value and a text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nopg.data import Repairs, Schema, Transitions, start_note
from nopg.data._bounds import check_log
from nopg.data._held_out import duplicate_groups
from nopg.data._repairs import LEFT_OUT
from nopg.inspect._columns import Column, column_findings, measure_columns, sample_finding, with_counts
from nopg.inspect._episodes import (
    Episodes,
    ends_finding,
    episodes_text,
    order_finding,
    repaired_finding,
    sampling_finding,
    stuck_finding,
)
from nopg.inspect._excitation import ActionExcitation, excitation_finding
from nopg.inspect._findings import Finding, Grade, error, graded, warning
from nopg.inspect._stated_cost import stated_cost
from nopg.inspect._wording import count_of, share_of, shortened
from nopg.models._log_summary import LogSummary

_ROWS_PER_INPUT = 20
# In more state columns neighbourhoods are empty.
_MOST_COLUMNS = 8
_FEW_COPIES, _MANY_COPIES = 0.01, 0.5
_FEW_DROPPED, _MANY_DROPPED = 0.01, 0.2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Description:
    """What is in a dataset, and what to correct; `str` gives a text.

    `facts` are episodes, starts, sampling and the like in words; `repairs` are those of the reader; of a
    summary the rows of its sample are `sampled`, else None. The most serious of `findings` comes first.
    """

    num_rows: int
    sampled: int | None
    columns: tuple[Column, ...]
    facts: Mapping[str, str]
    repairs: Repairs
    findings: tuple[Finding, ...]

    @property
    def grade(self) -> Grade:
        """The most serious grade of all findings."""
        return self.findings[0].grade

    def finding(self, topic: str) -> Finding | None:
        """Return the finding on a topic, or None."""
        return next((finding for finding in self.findings if finding.topic == topic), None)

    def to_text(self, width: int = 100) -> str:
        """Return findings, columns, facts and repairs in at most `width` and 100 columns."""
        width = min(max(width, 40), 100)
        fine = [finding.topic for finding in self.findings if finding.grade == Grade.OK]
        roles = [column.role for column in self.columns]
        states, actions = (count_of(roles.count(role), f"{role} column") for role in ("state", "action"))
        rows = count_of(self.num_rows, "transition")
        lines = [*_wrapped("", f"{rows}: {states}, {actions}; {self._grades()}", width), ""]
        for finding in self.findings:
            if finding.grade != Grade.OK:
                lines += _wrapped(f"{finding.grade:<9}", f"{finding.topic}: {finding.what}.", width)
                lines += _wrapped(" " * 9 + "→ ", f"{finding.advice}.", width)
        lines += [*_wrapped("ok       ", ", ".join(fine), width), "", *_table(self.columns, width), ""]
        for name, fact in self.facts.items():
            lines += _wrapped(f"{name:<12}", fact, width)
        if self.repairs:
            lines += ["", "Repairs"]
            for line in str(self.repairs).splitlines():
                lines += _wrapped("  ", line, width)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return columns, facts, repairs and findings as plain values."""
        names = ("name", "role", "unit", "low", "median", "high", "spread", "levels")
        return {
            "rows": self.num_rows,
            "sampled": self.sampled,
            "grade": str(self.grade),
            "columns": [{name: getattr(column, name) for name in names} for column in self.columns],
            **{name.lower(): fact for name, fact in self.facts.items()},
            "repairs": {"counts": dict(self.repairs.counts), "notes": list(self.repairs.notes)},
            "findings": [{**asdict(one), "grade": str(one.grade)} for one in self.findings],
        }

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"Description({count_of(self.num_rows, 'row')}: {self._grades()})"

    def _grades(self) -> str:
        found = [finding.grade for finding in self.findings]
        return ", ".join(f"{found.count(grade)} {grade}" for grade in reversed(Grade))


def describe(data: Transitions | LogSummary) -> Description:
    """Check a dataset before training on it.

    Args:
        data: The transitions; or the summary of a log: ranges, medians and repairs are those of all rows,
            everything else is read from its sample.

    Example:
        >>> from nopg.envs import Pendulum, collect_grid
        >>> description = describe(collect_grid(Pendulum(), (15, 15, 2)))
        >>> description
        Description(450 rows: 0 error, 2 warning, ... ok)
        >>> print(description.findings[0])
        [warning] duplicates: 30 rows (6.67 %) repeat another row. Drop them unless...
    """
    summary = data if isinstance(data, LogSummary) else None
    data = data.sample if isinstance(data, LogSummary) else data
    check_log(data)
    n, episodes, schema, repairs = len(data), Episodes.of(data), data.schema, data.repairs
    total = n if summary is None else summary.num_rows
    columns, sample, facts = measure_columns(data), None, dict[str, str]()
    if summary is not None:
        facts["Sample"] = f"{count_of(n, 'row')}; ranges, medians and repairs are those of all rows"
        if summary.columns is not None:
            columns = with_counts(columns, summary.columns, schema)
            sample = sample_finding(summary.columns, schema, total)
    copies = n - int(duplicate_groups(data).max()) - 1
    excitation, sampling = ActionExcitation.of(data), sampling_finding(repairs, schema.interval, total)
    findings = [
        _rows(n - copies, data.features.shape[1] + data.actions.shape[1]),
        many_columns(schema),
        _dropped(repairs.counts.get(LEFT_OUT, 0), total),
        sample,
        _copies(copies, n),
        *column_findings(columns, data, episodes.num_terminated),
        ends_finding(episodes),
        order_finding(episodes),
        stuck_finding(data, episodes),
        sampling,
        repaired_finding(repairs, total),
        excitation_finding(excitation),
        _starts(data),
        _cost(data),
    ]
    facts |= {
        "Episodes": episodes_text(episodes, schema.interval),
        "Starts": start_note(data),
        "Sampling": "not known; name the time column" if sampling is None else sampling.what,
        "Excitation": ", ".join(map(str, excitation)),
        "Limits": _limits(data),
        "Derived": ", ".join(schema.derived),
    }
    facts = {name: fact for name, fact in facts.items() if fact}
    found = sorted(filter(None, findings), key=lambda one: [*Grade].index(one.grade), reverse=True)
    return Description(total, None if summary is None else n, columns, facts, repairs, tuple(found))


def _cost(data: Transitions) -> Finding | None:
    cost = stated_cost(data)
    if cost is None:
        return None
    return warning(
        "cost",
        f"the reward is -({cost}) in every row, to rounding",
        f"State it, so that it need not be learned: --cost '{cost}', or data.with_reward('-({cost})')",
    )


def _limits(data: Transitions) -> str:
    ranges = zip(data.schema.actions, *(ends.tolist() for ends in data.actions.aminmax(dim=0)), strict=True)
    logged = (one for one in ranges if one[0] not in data.schema.bounds)
    limits = ", ".join(f"{name} in [{low:.4g}, {high:.4g}]" for name, low, high in logged)
    return limits and f"controllers keep {limits}, as logged; with declared bounds they may go further"


def _rows(distinct: int, num_inputs: int) -> Finding:
    wanted = _ROWS_PER_INPUT * num_inputs
    return graded(
        "rows",
        f"{count_of(distinct, 'distinct row')} for {count_of(num_inputs, 'input')}",
        f"Record more, some {wanted} at least, or leave out columns",
        grave=distinct < 2,
        minor=distinct >= wanted,
    )


def many_columns(schema: Schema) -> Finding | None:
    """Return the finding about more state columns than local models are made for; None if they are few."""
    if (count := len(schema.measured)) <= _MOST_COLUMNS:
        return None
    return error(
        "columns",
        f"{count} state columns are measured; local models are made for up to {_MOST_COLUMNS}",
        "Leave out what repeats other columns and what the controller can do without",
    )


def _dropped(count: int, num_rows: int) -> Finding | None:
    share = count / (count + num_rows)
    found = graded(
        "invalid rows",
        f"{count_of(count, 'row')} with NaN or infinities were dropped ({share_of(share)})",
        "Check whether they come from one sensor or one time; nothing can be learned there",
        grave=share > _MANY_DROPPED,
        minor=share <= _FEW_DROPPED,
    )
    return found if count else None


def _copies(count: int, num_rows: int) -> Finding:
    share = count / num_rows
    return graded(
        "duplicates",
        f"{count_of(count, 'row')} ({share_of(share)}) repeat another row",
        "Drop them unless they happened twice: each copy counts in every average",
        grave=share > _MANY_COPIES,
        minor=share <= _FEW_COPIES,
    )


def _starts(data: Transitions) -> Finding | None:
    if data.initial_states is not None or data.begins is not None or data.episodes is not None:
        return None
    return warning(
        "initial states",
        "none are declared, and without episodes every row counts as one",
        "Declare where the controller will start: data.starting_at(…), or initial_states in nopg.toml",
    )


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))


def _table(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Yield the lines of a table of the columns; long names are cut to what the numbers leave."""
    rows = [["column", "role", "unit", "min", "median", "max", "std", "distinct"]]
    for one in columns:
        least = 1e-12 * (one.high - one.low)  # less is rounding
        ends = (one.low, one.median, one.high, one.spread)
        numbers = [f"{0.0 if abs(value) < least else value:.4g}" for value in ends]
        role = "angle" if one.period is not None else one.role
        rows.append([one.name, role, one.unit, *numbers, str(one.levels)])
    _, *widths = (max(map(len, cells)) for cells in zip(*rows, strict=True))
    room = max(6, min(max(len(row[0]) for row in rows), width - sum(widths) - 2 * len(widths)))
    for name, *cells in rows:
        texts = [f"{text:<{size}}" for text, size in zip(cells[:2], widths, strict=False)]
        texts += [f"{text:>{size}}" for text, size in zip(cells[2:], widths[2:], strict=True)]
        yield "  ".join([f"{shortened(name, room):<{room}}", *texts])
