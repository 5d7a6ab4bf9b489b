"""`describe`: data-quality checks before training, as a value, a table and a figure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nopg.data import Repairs, Transitions, start_note
from nopg.data._held_out import duplicate_groups
from nopg.data._repairs import LEFT_OUT
from nopg.errors import ArgumentError
from nopg.inspect._column_findings import column_findings
from nopg.inspect._columns import Column, measure_columns, sample_finding, with_counts
from nopg.inspect._episodes import Episodes, Recording, ends_finding, order_finding
from nopg.inspect._excitation import ActionExcitation, excitation_finding
from nopg.inspect._figure import draw, panels
from nopg.inspect._findings import Finding, Grade, graded, numbered, ok, warning
from nopg.inspect._repairs import repaired_finding, sampling_finding, sampling_text
from nopg.inspect._stuck import Run, find_runs, stuck_finding
from nopg.inspect._table import columns_text, facts_text, findings_text, headline, repairs_text
from nopg.inspect._wording import count_of, share_of
from nopg.models._log_summary import LogSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS_PER_INPUT = 20
_FEW_COPIES, _MANY_COPIES = 0.01, 0.5
_FEW_DROPPED, _MANY_DROPPED = 0.01, 0.2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Description:
    """What is in a dataset, and what to correct; `str` gives a table, `figure` a picture.

    Attributes:
        num_rows: n.
        num_copies: Rows that repeat an earlier one in (s, a, r, s′).
        num_dropped: Rows that were dropped before for NaN or infinities, where known.
        columns: States, actions, the reward.
        episodes: How many, how long, how they end.
        runs: State columns that repeat one value surprisingly long.
        excitation: Whether the log tells what each action does.
        interval: Time between two rows in seconds, where it is known.
        repairs: What the reader repaired.
        findings: Numbered, the gravest first.
        derived: Names of the state columns that are computed from others.
        starts: Where the task starts; see `nopg.data.start_note`.
        sampled: Of a summary the rows of its sample; ranges, medians and repairs are those of all rows.
    """

    num_rows: int
    num_copies: int
    num_dropped: int | None
    columns: tuple[Column, ...]
    episodes: Episodes
    runs: tuple[Run, ...]
    excitation: tuple[ActionExcitation, ...]
    interval: float | None
    repairs: Repairs
    findings: tuple[Finding, ...]
    derived: tuple[str, ...] = ()
    starts: str = ""
    sampled: int | None = None

    @property
    def grade(self) -> Grade:
        """The gravest grade of all findings."""
        return self.findings[0].grade

    def finding(self, topic: str) -> Finding | None:
        """Return the finding on a topic, or None."""
        return next((finding for finding in self.findings if finding.topic == topic), None)

    def figure(self) -> Figure:
        """Return small multiples: columns, episodes, sampling."""
        return draw(
            self.num_rows,
            self.columns,
            self.findings,
            panels(self.columns, self.episodes, self.runs),
        )

    def to_text(self, width: int = 100) -> str:
        """Return findings, columns, episodes and sampling in at most `width` and 100 columns."""
        width = min(max(width, 40), 100)
        looked_at = self.num_rows if self.sampled is None else self.sampled
        copies = f"{count_of(self.num_copies, 'row')}, {share_of(self.num_copies / looked_at)}"
        facts = {
            "Episodes": str(self.episodes),
            "Starts": self.starts,
            "Sampling": sampling_text(self.repairs, self.interval),
            "Duplicates": copies,
        }
        if self.sampled is not None:
            sample = f"{count_of(self.sampled, 'row')}; ranges, medians and repairs are those of all rows"
            facts = {"Sample": sample, **facts}
        if self.derived:
            facts["Derived"] = ", ".join(self.derived)
        if self.num_dropped is not None:
            facts["Dropped"] = f"{count_of(self.num_dropped, 'row')} with NaN or infinities"
        parts = [
            headline(self.num_rows, self.columns, self.findings, width),
            findings_text(self.findings, width),
            columns_text(self.columns, width),
            facts_text(facts, width),
        ]
        if self.repairs:
            parts.append(repairs_text(self.repairs, width))
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return columns, episodes and findings as plain values."""
        names = ("name", "role", "unit", "low", "median", "high", "spread", "levels")
        return {
            "rows": self.num_rows,
            "sampled": self.sampled,
            "copies": self.num_copies,
            "grade": str(self.grade),
            "columns": [{name: getattr(column, name) for name in names} for column in self.columns],
            "derived": list(self.derived),
            "episodes": str(self.episodes),
            "starts": self.starts,
            "interval": self.interval,
            "repairs": {"counts": dict(self.repairs.counts), "notes": list(self.repairs.notes)},
            "findings": [{**asdict(one), "grade": str(one.grade)} for one in self.findings],
        }

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(grade)} {grade}" for grade in reversed(Grade))
        return f"Description({count_of(self.num_rows, 'row')}: {counts})"

    def count(self, grade: Grade) -> int:
        """Return how many findings have this grade."""
        return sum(finding.grade == grade for finding in self.findings)


def describe(data: Transitions | LogSummary, *, num_dropped: int | None = None) -> Description:
    """Check a dataset before training on it.

    Args:
        data: The transitions; or the summary of a log, whose ranges, medians and repairs are those of all
            rows, while everything else is read from its sample.
        num_dropped: How many rows were dropped for NaN or infinities when the data were read; as the reader
            counted by default.

    Example:
        >>> from nopg.envs import Pendulum, collect_grid
        >>> description = describe(collect_grid(Pendulum(), (15, 15, 2)))
        >>> description
        Description(450 rows: 0 error, 2 warning, ... ok)
        >>> print(description.findings[0])
        1 [warning] duplicates: 30 rows (6.67 %) repeat another row. Drop them unless...
    """
    if num_dropped is not None and num_dropped < 0:
        raise ArgumentError(f"num_dropped is {num_dropped}; give how many rows were dropped, or None")
    summary = data if isinstance(data, LogSummary) else None
    data = data.sample if isinstance(data, LogSummary) else data
    n, recording = len(data), Recording.of(data)
    total, counted = (n, None) if summary is None else (summary.num_rows, summary.columns)
    num_dropped = num_dropped if num_dropped is not None else data.repairs.counts.get(LEFT_OUT)
    columns, episodes = measure_columns(data), Episodes.of(data, recording)
    columns = columns if counted is None else with_counts(columns, counted, data.schema)
    runs = find_runs(data, recording)
    copies = n - int(duplicate_groups(data).max()) - 1
    excitation = ActionExcitation.of(data)
    findings = [
        _rows(n - copies, data.features.shape[1] + data.actions.shape[1]),
        None if num_dropped is None else _dropped(num_dropped, total),
        None if counted is None else sample_finding(counted, data.schema, total),
        _copies(copies, n),
        *column_findings(columns, episodes.num_terminated, data.schema.reward, data.schema.levels),
        ends_finding(episodes),
        order_finding(episodes),
        stuck_finding(runs, n) if bool(recording.connected.any()) else None,
        sampling_finding(data.repairs, data.schema.interval, total),
        repaired_finding(data.repairs, total),
        excitation_finding(excitation),
        _starts(data),
    ]
    return Description(
        num_rows=total,
        num_copies=copies,
        num_dropped=num_dropped,
        columns=columns,
        episodes=episodes,
        runs=runs,
        excitation=excitation,
        interval=data.schema.interval,
        repairs=data.repairs,
        findings=numbered(findings),
        derived=tuple(data.schema.derived),
        starts=start_note(data),
        sampled=None if summary is None else n,
    )


def _rows(distinct: int, num_inputs: int) -> Finding:
    """Return the finding about the number of distinct rows for the number of inputs."""
    wanted = _ROWS_PER_INPUT * num_inputs
    advice = f"Record more, some {wanted} at least, or leave out columns"
    return graded(
        "rows",
        f"{count_of(distinct, 'distinct row')} for {count_of(num_inputs, 'input')}",
        "Give at least two different transitions" if distinct < 2 else advice,
        grave=distinct < 2,
        minor=distinct >= wanted,
    )


def _dropped(num_dropped: int, num_rows: int) -> Finding:
    """Return the finding about rows dropped for NaN or infinities."""
    share = num_dropped / (num_dropped + num_rows)
    return graded(
        "invalid rows",
        f"{count_of(num_dropped, 'row')} with NaN or infinities were dropped ({share_of(share)})",
        "Check whether they come from one sensor or one time; nothing can be learned there",
        grave=share > _MANY_DROPPED,
        minor=share <= _FEW_DROPPED,
    )


def _copies(num_copies: int, num_rows: int) -> Finding:
    """Return the finding about repeated rows."""
    share = num_copies / num_rows
    if not num_copies:
        return ok("duplicates", "no row repeats another")
    return graded(
        "duplicates",
        f"{count_of(num_copies, 'row')} ({share_of(share)}) repeat another row",
        "Drop them unless they happened twice: each copy counts in every average",
        grave=share > _MANY_COPIES,
        minor=share <= _FEW_COPIES,
    )


def _starts(data: Transitions) -> Finding | None:
    """Return the finding that nothing says where the task starts."""
    if data.initial_states is not None or data.begins is not None or data.episodes is not None:
        return None
    return warning(
        "initial states",
        "none are declared, and without episodes every row counts as one",
        "Declare where the controller will start: data.starting_at(…), or --start",
    )
