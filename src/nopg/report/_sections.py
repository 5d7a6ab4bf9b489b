"""What a report says, section by section."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from nopg._version import __version__
from nopg.report._columns import Column
from nopg.report._findings import Finding, Grade, count_of
from nopg.report._page import figure, note, page, paragraph, section, table, verdict
from nopg.report._wording import chance, interval, number

if TYPE_CHECKING:
    from nopg.report._policy_report import PolicyReport

__all__ = ["LIMITS", "MOST_CELLS", "page_of"]

MOST_CELLS = 24_000
_FEWER_CELLS = 3_000
_ROUNDING = 1e-9
_MAPS = {
    "value": "What the data let us expect from each place on.",
    "policy": "What the policy does.",
    "visitation": "Where it goes from the starts.",
}
_VERDICTS = {
    "ok": "the data answer it: little of the return's weight lies outside of them, the interval is narrow",
    "weak": "the data answer it roughly; the reasons are given",
    "not identifiable": "the data cannot answer it, and the numbers should not be used",
}
_CERTIFICATE = {
    "return_error": "the return Ĵ of the equation is at most so far from the exact one",
    "q_error": "values at the data, the largest error",
    "mu_error": "visits, the sum of all errors",
    "duality_gap": "Ĵ by values against Ĵ by visits, 0 in exact arithmetic",
    "mass_defect": "probability that got lost, 0 in exact arithmetic",
}

LIMITS = (
    "The interval is no guarantee. Its width was calibrated on six plants whose truth is known; the study is "
    "in docs/offline-evaluation.md. It holds what the data leave open inside of them: other episodes, noise, "
    "fits that are too stiff.",
    "What the data have never seen is not in the interval. The unknown mass says how much of the return's "
    "weight lies there; the pessimistic return counts it as the worst that was ever logged, for ever. That "
    "is a cautious number, not a lower bound.",
    "The unknown mass does not find every wrong answer, and a large one does not make an answer wrong: see "
    "the same study. With few episodes the interval itself is known badly.",
    "Model error and interval are different things. The plant is taken to be as it was in the log, and the "
    "state columns to hold all that decides what comes next. A hidden state, a delay, wear or another "
    "product is not seen, however narrow the interval.",
    "Only policies without memory are judged: the action follows from the present state. The logged "
    "behaviour is imitated in the same way, by what was done in the nearest logged states; a controller with "
    "an integral is met only on average, unless its integral is a state column.",
    "All returns are those from the starts of the data. From elsewhere the policy may do better or worse.",
    "A risk of a region that hardly any logged state lies in cannot be known from these data, only bounded.",
    "The certificates bound the error of the arithmetic, not that of the model.",
)


def page_of(report: PolicyReport) -> str:
    """Return the page."""
    data, discount = report.data, report.result.discount
    schema = data.schema
    subtitle = (
        f"{', '.join(schema.states)} → {', '.join(schema.actions)}; {count_of(len(data), 'logged row')}, "
        f"discount {discount:g}; nopg {__version__}"
    )
    parts = [
        _verdict(report),
        _data(report),
        _maps(report),
        _trajectories(report),
        _risks(report),
        _sensitivity(report),
        _influence(report),
        _training(report),
        _certificates(report),
        section("Limits", "<ul>", *(f"<li>{paragraph(limit)}</li>" for limit in LIMITS), "</ul>"),
    ]
    return page(report.title, subtitle, parts)


def _verdict(report: PolicyReport) -> str:
    policy, logged, gain = report.policy, report.logged, report.gain
    seen = report.seen
    truth = (
        f"; its episodes really earned {number(seen.mean)} ± {number(seen.standard_error, 2)}" if seen else ""
    )
    found = verdict(
        policy.verdict,
        report.sentence,
        {
            "Predicted return": (
                number(policy.expected_return),
                f"95 % {interval(policy.interval)}; logged {number(logged.expected_return)} "
                f"{interval(logged.interval)}{truth}",
            ),
            "Probability of being better": (
                chance(gain.probability_better),
                f"gain {number(gain.mean)}, 95 % {interval(gain.interval)}",
            ),
            "Unknown mass": (
                chance(policy.unknown_mass),
                f"return if that is as bad as anything logged: {number(policy.pessimistic_return)}",
            ),
        },
    )
    why = [f"Verdict on the policy: {policy.verdict}; {_VERDICTS[policy.verdict]}."]
    why += [f"Because {reason}." for reason in policy.reasons]
    if logged.reasons:
        why.append(f"On the logged behaviour: {logged.verdict}, because {'; '.join(logged.reasons)}.")
    return found + note(" ".join(why))


def _data(report: PolicyReport) -> str:
    found = report.description
    columns = [
        (
            column.name,
            column.role,
            column.unit,
            number(column.low),
            number(_near_zero(column.median, column)),
            number(column.high),
        )
        for column in found.columns
    ]
    findings = [
        (
            str(finding.grade),
            finding.topic,
            _finding(finding),
        )
        for finding in found.findings
    ]
    return section(
        "Data and coverage",
        paragraph(f"{count_of(found.num_rows, 'row')}. Episodes: {found.episodes}."),
        table(("column", "role", "unit", "lowest", "median", "highest"), columns, numbers=(3, 4, 5)),
        table(("", "topic", "what was found"), findings, long=2),
        note("stop: mend it and train again; look: probably worth mending; ok: nothing to do."),
    )


def _maps(report: PolicyReport) -> str:
    pictures = [
        figure(report.maps[name], file=f"{name}.csv", text=text, cells=MOST_CELLS)
        for name, text in _MAPS.items()
    ]
    return section(
        "Where it goes, what it does, what that is worth",
        paragraph(
            "Over the state columns along which its visits spread most. Hatched areas are outside the data."
        ),
        '<div class="pictures">',
        *pictures,
        "</div>",
    )


def _trajectories(report: PolicyReport) -> str:
    pictures = [
        figure(
            picture, file=f"trajectories-{_file(name)}.csv", text=f"{name}, step by step.", cells=_FEWER_CELLS
        )
        for name, picture in report.trajectories.items()
    ]
    columns = len(report.data.schema.states) + len(report.data.schema.actions) + 1
    some = f" {len(pictures)} of {columns} columns are drawn." if len(pictures) < columns else ""
    paths = report.policy.paths
    lasting = float((paths.going[-1, : paths.returns.shape[1]] > 0).double().mean())
    some += f" Of the predicted paths {chance(lasting)} go on to the last step." if lasting < 1 else ""
    return section(
        "Predicted paths beside logged ones",
        paragraph(
            "From the starts of the data. Line: the median; dark band: half of the paths; pale band: nine in "
            "ten; a few paths are drawn one by one. Paths that have ended no longer count. Hatched: most of "
            f"the paths have left the data.{some}"
        ),
        '<div class="pictures">',
        *pictures,
        "</div>",
    )


def _risks(report: PolicyReport) -> str:
    if not report.risks:
        name = report.data.schema.states[0]
        text = (
            "No region was asked for. To know the probability of entering one, name it by the state columns: "
            f"nopg report RUN --region '{name} > 1' --steps 100, or "
            f"write_report(…, regions=['{name} > 1'], steps=100)."
        )
        return section("Risks", paragraph(text))
    rows = [(name, f"{risk.steps}", str(risk), f"{risk.rows_inside}") for name, risk in report.risks.items()]
    return section(
        "Risks",
        paragraph(
            "The probability that the policy enters a region from the starts. The upper end counts all that "
            "leaves the data as entering."
        ),
        table(
            ("region", "within steps", "probability", "logged states inside"), rows, numbers=(1, 3), long=2
        ),
    )


def _sensitivity(report: PolicyReport) -> str:
    rows = [
        (
            f"{one.what} {one.change}".rstrip(),
            number(one.expected_return),
            number(one.gain),
            number(one.pessimistic_return),
            chance(one.unknown_mass),
        )
        for one in report.variations
    ]
    head = ("changed", "predicted return", "gain over logged", "pessi\N{SOFT HYPHEN}mistic", "unknown mass")
    return section(
        "Sensitivity",
        paragraph(
            "The same policy judged with other choices. A verdict that turns with one of them rests on it. "
            "Another discount asks another question, so look at the sign of the gain there; the prior mass "
            "says how soon a place counts as unknown, and moves only the last two columns. Gains are those "
            "of one draw of the logged behaviour and differ from the gain above by chance."
        ),
        table(head, rows, numbers=(1, 2, 3, 4)),
    )


def _influence(report: PolicyReport) -> str:
    equation, parts = report.equation, report.influential
    rows = [(f"{part.number}", part.where(), number(part.influence, 3)) for part in parts]
    kind = parts[0].kind
    what = {"episode": "episodes", "tenth": "tenths of the one episode", "row": "rows, copies together,"}[
        kind
    ]
    return section(
        "What the answer rests on",
        paragraph(
            "The paper's equation, a second and coarser way to the return, gives "
            f"{number(equation.expected_return)} ± {number(equation.standard_error, 2)}, corrected by what "
            f"it misses {number(equation.doubly_robust)} ± {number(equation.doubly_robust_error, 2)}, each "
            "with its standard error. It rests on "
            f"{number(equation.effective_samples, 3)} samples' worth of visits."
        ),
        paragraph(
            f"The {len(parts)} {what} that move it most. If one counted 1 % more, the return would change by "
            "a hundredth of its influence. Look at these first: a mistake in them costs most."
        ),
        table((kind, "rows", "influence"), rows, numbers=(0, 2)),
    )


def _training(report: PolicyReport) -> str:
    result = report.result
    text = (
        f"{count_of(len(result.history), 'update')}; transition model: {result.choice.reason}. The equation "
        f"that was trained on says {number(result.expected_return)} with {chance(result.unknown_mass)} "
        "unknown; the prediction above follows paths instead, and carries the interval. Bandwidths: "
        f"{result.bandwidths.source}."
    )
    return section(
        "Training",
        paragraph(text),
        figure(
            report.maps["training"],
            file="training.csv",
            text="Return, unknown mass and gradient over the updates.",
            cells=_FEWER_CELLS,
        ),
    )


def _certificates(report: PolicyReport) -> str:
    proof = report.result.certificate
    rows = [
        (name.replace("_", " "), _tiny(getattr(proof, name)), text) for name, text in _CERTIFICATE.items()
    ]
    done = (
        "Both solves reached their tolerance." if proof.converged else "A solve did not reach its tolerance."
    )
    return section(
        "Numerical certificates",
        paragraph(f"{done} Bounds on the error of the arithmetic:"),
        table(("bound", "at most", "of"), rows, numbers=(1,), long=2),
    )


def _finding(finding: Finding) -> str:
    """Return what was found and, where there is something to do, what."""
    return f"{finding.what}." if finding.grade == Grade.OK else f"{finding.what}. {finding.advice}."


def _near_zero(value: float, column: Column) -> float:
    """Return 0 for what is only rounding beside the width of the column."""
    return 0.0 if abs(value) < _ROUNDING * (column.high - column.low) else value


def _tiny(value: float) -> str:
    return f"{value:.1e}".replace("-", "−") if math.isfinite(value) else number(value)


def _file(name: str) -> str:
    """Return a name of which nothing in a file name goes wrong."""
    return re.sub(r"[^\w.-]+", "_", name)[:60]
