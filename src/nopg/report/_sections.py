"""What a report says, section by section."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from nopg._version import __version__
from nopg.inspect import Finding, Grade
from nopg.inspect._columns import Column
from nopg.inspect._wording import chance, count_of
from nopg.models import ColumnFit
from nopg.report._page import figure, note, page, paragraph, section, table, verdict
from nopg.report._wording import interval, number

if TYPE_CHECKING:
    from nopg.report._policy_report import PolicyReport

__all__ = ["LIMITS", "MOST_CELLS", "page_of"]

MOST_CELLS = 24_000
_FEWER_CELLS = 3_000
_ROUNDING = 1e-9
_MAPS = {
    "value": "Discounted return to expect from each state on.",
    "policy": "Action of the policy.",
    "visitation": "Where the policy goes from the starts.",
}
_VERDICTS = {
    "ok": "little of the return's weight lies outside the data, and the interval is narrow",
    "weak": "the data answer it roughly; the reasons are given",
    "not identifiable": "the data cannot answer it, and the numbers should not be used",
}
_CERTIFICATE = {
    "return_error": ("return", "error of the return Ĵ of the equation"),
    "q_error": ("values", "largest error of a value"),
    "mu_error": ("visits", "sum of the errors of all visits"),
    "duality_gap": ("duality gap", "Ĵ by values against Ĵ by visits, 0 in exact arithmetic"),
    "mass_defect": ("mass defect", "probability that got lost, 0 in exact arithmetic"),
}

LIMITS = (
    "The interval is no guarantee. Its width comes from models that are fitted to halves of the episodes, "
    "and was calibrated on plants whose true returns are known. With few episodes it is itself uncertain.",
    "The lower end of the interval counts leaving the data as the worst that was logged, for ever. That is a "
    "cautious number, not a lower bound: the plant may do worse than anything in the log.",
    "The unknown mass says how much of the return's weight lies outside the data. It does not find every "
    "wrong answer, and a large one does not make an answer wrong.",
    "Model error and interval are different things. The plant is taken to be as it was in the log, and the "
    "state columns to contain all that decides what comes next. A hidden state, a delay, wear or another "
    "product is not seen, however narrow the interval.",
    "Only policies without memory are evaluated: the action follows from the present state. The logged "
    "behaviour is imitated in the same way, by what was done in the nearest logged states; a controller with "
    "an integral is matched only on average, unless its integral is a state column.",
    "All returns are those from the starts of the data. From elsewhere the policy may do better or worse.",
    "The risk of a region with hardly any logged state in it cannot be known from these data, only bounded.",
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
        _model(report),
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
    truth = f"; its episodes earned {number(seen.mean)} ± {number(seen.standard_error, 2)}" if seen else ""
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
                f"return if all of it earns the worst that was logged: {number(policy.pessimistic_return)}",
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
        note("stop: correct the data and train again; look: probably worth correcting; ok: nothing to do."),
    )


def _model(report: PolicyReport) -> str:
    model = report.result.evaluator.model
    given = model.reward_function is not None
    rows = [
        (fit.name, "known function", "", "") if given and fit.name == "reward" else _fit(fit)
        for fit in model.column_fits
    ]
    return section(
        "Model of the plant",
        paragraph(
            "Local polynomials predict the step of every state column and the reward from those inputs that "
            "predict best. R² is the share of the variance that they explain on rows that were left out; "
            "near 0 a column is not predictable from the inputs, and a state column or more data are missing."
        ),
        table(
            ("column", "inputs used", "held-out R²", "error in standard deviations"),
            rows,
            numbers=(2, 3),
            long=1,
        ),
    )


def _maps(report: PolicyReport) -> str:
    pictures = [
        figure(report.maps[name], file=f"{name}.csv", text=text, cells=MOST_CELLS)
        for name, text in _MAPS.items()
    ]
    return section(
        "Value, policy and visits",
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
            f"{one.discount:g}" + (" (trained)" if k == 0 else ""),
            number(one.expected_return),
            interval(one.interval),
            number(one.gain),
            chance(one.probability_better),
            chance(one.unknown_mass),
            one.verdict,
        )
        for k, one in enumerate(report.variations)
    ]
    head = (
        "discount",
        "predicted return",
        "95 %",
        "gain over logged",
        "P(better)",
        "unknown mass",
        "verdict",
    )
    return section(
        "Sensitivity to the discount",
        paragraph(
            "The same policy with a discount that looks twice as far ahead, and half as far. Returns with "
            "different discounts are different sums: compare the sign of the gain and the verdict."
        ),
        table(head, rows, numbers=(1, 2, 3, 4, 5)),
    )


def _influence(report: PolicyReport) -> str:
    parts = report.influential
    if not parts:
        return section(
            "Influence of the data", paragraph("There is a single group of rows; none can be left out.")
        )
    rows = [(part.where(), f"{len(part.rows)}", number(part.influence, 3)) for part in parts]
    return section(
        "Influence of the data",
        paragraph(
            f"The log is divided into {count_of(len(parts), 'group')}. The influence of a group is the "
            "return predicted from all rows less the return predicted without the group. Look at the "
            "first ones: an error in them matters most."
        ),
        table(("left out", "rows", "influence on the return"), rows, numbers=(1, 2), long=0),
    )


def _training(report: PolicyReport) -> str:
    result = report.result
    text = f"{count_of(len(result.history), 'update')}. Model and equation: {result.problem.description}."
    if result.interval is None:
        text += (
            f" The equation that was trained on says {number(result.expected_return)} with "
            f"{chance(result.unknown_mass)} unknown; the prediction above follows rollouts of a local "
            "model."
        )
    else:
        text += " While training, the return is the lower end of its interval, as the equation predicts it."
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
    rows = [(label, _tiny(getattr(proof, name)), text) for name, (label, text) in _CERTIFICATE.items()]
    done = (
        "Both solves reached their tolerance." if proof.converged else "A solve did not reach its tolerance."
    )
    return section(
        "Numerical certificates",
        paragraph(f"{done} Bounds on the error of the arithmetic:"),
        table(("bound", "at most", "of"), rows, numbers=(1,), long=2),
    )


def _fit(fit: ColumnFit) -> tuple[str, str, str, str]:
    inputs = ", ".join(fit.inputs) if fit.error > 0 else "none: it never changes"
    return fit.name, inputs, f"{fit.r_squared:.3f}".replace("-", "−"), number(fit.error, 2)


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
