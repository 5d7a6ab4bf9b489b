"""The sections of a report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from nopg._version import __version__
from nopg.data import Schema
from nopg.evaluation import Risk
from nopg.inspect import Grade
from nopg.inspect._columns import Column
from nopg.inspect._wording import chance, count_of
from nopg.models import ColumnFit
from nopg.report._content import ReportContent
from nopg.report._deviation_figure import deviation_picture
from nopg.report._gains_figure import gains_picture
from nopg.report._page import bullets, figure, figures, note, page, paragraph, section, table, verdict
from nopg.report._time_axis import steps_text
from nopg.report._wording import LIMITS, VERDICTS, interval, number

MOST_CELLS = 24_000
_FEWER_CELLS = 3_000
_ROUNDING = 1e-9
_MAPS = {
    "value": "Discounted return to expect from each state on.",
    "policy": "Action of the policy.",
    "visitation": "Where the policy goes from the starts.",
}
_CERTIFICATE = {
    "return_error": ("return", "error of the return Ĵ of the equation"),
    "cut_error": ("cut", "part of it that samples left out of the sums may cause"),
    "q_error": ("values", "largest error of a value"),
    "mu_error": ("visits", "sum of the errors of all visits"),
    "duality_gap": ("duality gap", "Ĵ by values less Ĵ by visits, 0 in exact arithmetic"),
    "mass_defect": ("mass defect", "lost probability, 0 in exact arithmetic"),
}


def page_of(report: ReportContent) -> str:
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
        _gains(report),
        _deviations(report),
        _maps(report),
        _trajectories(report),
        _risks(report),
        _sensitivity(report),
        _influence(report),
        _training(report),
        _certificates(report),
        section("Limits", bullets(LIMITS)),
    ]
    return page(report.title, subtitle, parts)


def _verdict(report: ReportContent) -> str:
    policy, logged, gain = report.policy, report.logged, report.gain
    seen = report.seen
    truth = f"; logged episodes earned {number(seen.mean)} ± {number(seen.standard_error, 2)}" if seen else ""
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
                f"return if the worst logged reward applies there: {number(policy.pessimistic_return)}",
            ),
        },
    )
    why = f"Verdict on the policy: {policy.verdict} ({VERDICTS[policy.verdict]}){_reasons(policy.reasons)}."
    why += f" Held out: {str(policy.held_out).replace('-', '−')}."
    if logged.reasons:
        own = [one for one in logged.reasons if one not in policy.reasons]
        same = "" if own else ", for the same reasons"
        why += f" Verdict on the logged behaviour: {logged.verdict}{same}{_reasons(own)}."
    return found + note(why) + note(f"Notes: {'; '.join(policy.notes)}.")


def _reasons(reasons: Sequence[str]) -> str:
    return f". Reasons: {'; '.join(reasons)}" if reasons else ""


def _data(report: ReportContent) -> str:
    found = report.description
    columns: list[tuple[str, ...]] = [
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
        (str(one.grade), one.topic, f"{one.what}." + (f" {one.advice}." if one.grade != Grade.OK else ""))
        for one in found.findings
    ]
    head: tuple[str, ...] = ("column", "role", "unit", "lowest", "median", "highest")
    if not any(column.unit for column in found.columns):
        head, columns = (*head[:2], *head[3:]), [(*row[:2], *row[3:]) for row in columns]
    return section(
        "Data",
        paragraph(f"{count_of(found.num_rows, 'row')}. Episodes: {found.episodes}."),
        table(head, columns, numbers=range(len(head) - 3, len(head))),
        table(("", "topic", "what was found"), findings, long=2),
        note("stop: correct the data and train again; look: probably worth correcting; ok: nothing to do."),
    )


def _model(report: ReportContent) -> str:
    model = report.result.evaluator.model
    given = model.reward_function is not None
    rows = [
        (fit.name, "known function", "", "")
        if given and fit.name == "reward"
        else _fit(fit, model.data.schema)
        for fit in model.column_fits
    ]
    return section(
        "Model of the plant",
        paragraph(
            "Local polynomials predict the step of every state column and the reward from the inputs that "
            "predict best. R² is the share of the variance that they explain on held-out rows; near 0 a "
            "column is not predictable from the inputs: a state column or more data are missing."
        ),
        table(
            ("column", "inputs used", "held-out R²", "error in standard deviations"),
            rows,
            numbers=(2, 3),
            long=1,
        ),
    )


def _gains(report: ReportContent) -> str:
    gains = report.gains
    if gains is None:
        return ""
    laws = [f"{action} = {text}" for action, text in gains.laws.items()]
    rows = [
        (one.name, number(one.value), interval((float(one.low[k]), float(one.high[k]))), number(best))
        for one in gains
        for k, best in [(int(abs(one.values - one.value).argmin()), float(one.values[one.low.argmax()]))]
    ]
    return section(
        "Gains of the controller",
        paragraph(f"The controller is {'; '.join(laws)}, clipped to the limits of the actions."),
        table(("gain", "trained", "95 % of the return", "highest lower end at"), rows, numbers=(1, 2, 3)),
        figure(
            gains_picture(gains),
            file="gains.csv",
            text="Predicted return over each gain, the others as trained; band: 95 %.",
            cells=_FEWER_CELLS,
        ),
    )


def _deviations(report: ReportContent) -> str:
    found = report.deviations
    if found is None:
        return ""
    rows = [
        (
            f"{one.share:.0%}",
            ", ".join(number(value) for value in one.limit),
            interval(one.evaluation.interval),
            number(one.gain.mean),
            interval(one.gain.interval),
            one.evaluation.verdict,
        )
        for one in found
    ]
    return section(
        "Beginning small",
        paragraph(
            "The controller may be kept near the logged one, imitated by a network: by so much of the logged "
            "range of each action at most."
        ),
        table(
            (
                "deviation",
                ", ".join(found.actions),
                "95 % of the return",
                "gain",
                "95 % of the gain",
                "verdict",
            ),
            rows,
            numbers=(0, 1, 2, 3, 4),
        ),
        figure(
            deviation_picture(found),
            file="deviations.csv",
            text="Predicted gain over the logged controller by the largest deviation from it; band: 95 %.",
            cells=_FEWER_CELLS,
        ),
    )


def _maps(report: ReportContent) -> str:
    return section(
        "Value, policy and visits",
        paragraph(
            "Over one or two state columns; the others are held at the values above a map. Hatched areas are "
            "outside the data."
        ),
        figures(
            figure(report.maps[name], file=f"{name}.csv", text=text, cells=MOST_CELLS)
            for name, text in _MAPS.items()
        ),
    )


def _trajectories(report: ReportContent) -> str:
    interval = report.data.schema.interval
    by = "by step" if interval is None else "over time"
    pictures = [
        figure(one, file=f"trajectories-{_file(name)}.csv", text=f"{name} {by}.", cells=_FEWER_CELLS)
        for name, one in report.trajectories.items()
    ]
    columns = len(report.data.schema.states) + len(report.data.schema.actions) + 1
    some = f" {len(pictures)} of {columns} columns are drawn." if len(pictures) < columns else ""
    paths = report.policy.paths
    lasting = float((paths.going[-1, : paths.returns.shape[1]] > 0).double().mean())
    some += f" {chance(lasting)} of the predicted paths reach the last step." if lasting < 1 else ""
    return section(
        "Predicted paths beside logged ones",
        paragraph(
            "From the starts of the data. Line: median; dark band: 50 % of the paths; pale band: 90 %; few "
            "paths are drawn one by one. Paths that have ended do not count. Hatched: most paths have left "
            f"the data.{some}"
        ),
        figures(pictures),
    )


def _risks(report: ReportContent) -> str:
    if not report.risks:
        name = report.data.schema.states[0]
        text = (
            "No region was given. For the probability of entering one, name it by the state columns: "
            f"nopg report RUN --region '{name} > 1' --steps 100, or "
            f"write_report(…, regions=['{name} > 1'], steps=100)."
        )
        return section("Risks", paragraph(text))
    interval = report.data.schema.interval
    rows = [
        (name, steps_text(risk.steps, interval), str(risk), f"{risk.rows_inside}", *_limit(risk, report.most))
        for name, risk in report.risks.items()
    ]
    heads = ["region", "within", "probability", "logged states inside"]
    heads += [] if report.most is None else [f"at most {chance(report.most)}"]
    return section(
        "Risks",
        paragraph(
            "Probability that the policy enters a region from the starts. The upper end counts leaving the "
            "data as entering."
        ),
        table(heads, rows, numbers=(1, 3), long=2),
    )


def _limit(risk: Risk, most: float | None) -> tuple[str, ...]:
    return () if most is None else (risk.finding(most),)


def _sensitivity(report: ReportContent) -> str:
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
    head = ("discount", "predicted return", "95 %", "gain over logged", "P(better)", "unknown", "verdict")
    return section(
        "Sensitivity to the discount",
        paragraph(
            "The same policy with twice and with half the horizon 1/(1 − γ). Returns with different "
            "discounts are different sums: compare the sign of the gain and the verdict."
        ),
        table(head, rows, numbers=(1, 2, 3, 4, 5)),
    )


def _influence(report: ReportContent) -> str:
    parts = report.influential
    if not parts:
        return section("Influence of the data", paragraph("The data are one group; none can be left out."))
    rows = [(part.where(), f"{len(part.rows)}", number(part.influence, 3)) for part in parts]
    return section(
        "Influence of the data",
        paragraph(
            f"The log is divided into {count_of(len(parts), 'group')}. The influence of a group is the "
            "return predicted from all rows less the return predicted without the group. Check the first "
            "ones: errors in them matter most."
        ),
        table(("left out", "rows", "influence on the return"), rows, numbers=(1, 2), long=0),
    )


def _training(report: ReportContent) -> str:
    result = report.result
    text = f"{count_of(len(result.history), 'update')}. Model and equation: {result.problem.description}."
    if result.interval is None:
        text += (
            f" Its own estimate of the return is {number(result.expected_return)} with an unknown mass of "
            f"{chance(result.unknown_mass)}; the prediction above is made by rollouts of a local model."
        )
    else:
        text += " During training, the curve is the lower end of the interval of the equation's return."
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


def _certificates(report: ReportContent) -> str:
    proof = report.result.certificate
    rows = [(label, _tiny(getattr(proof, name)), text) for name, (label, text) in _CERTIFICATE.items()]
    done = "Both solves reached" if proof.converged else "A solve did not reach"
    return section(
        "Numerical certificates",
        paragraph(f"{done} the tolerance. Bounds on the numerical error:"),
        table(("bound", "at most", "of"), rows, numbers=(1,), long=2),
    )


def _fit(fit: ColumnFit, schema: Schema) -> tuple[str, str, str, str]:
    if fit.name in schema.derived:
        return fit.name, "computed from other columns", "", ""
    if fit.name in schema.exogenous:
        return fit.name, "moves as in the log" if schema.exogenous[fit.name] == "log" else "held", "", ""
    inputs = ", ".join(fit.inputs) if fit.error > 0 else "none: constant"
    return fit.name, inputs, f"{fit.r_squared:.3f}".replace("-", "−"), number(fit.error, 2)


def _near_zero(value: float, column: Column) -> float:
    """Return a value, or 0 for a rounding error against the range of its column."""
    return 0.0 if abs(value) < _ROUNDING * (column.high - column.low) else value


def _tiny(value: float) -> str:
    return f"{value:.1e}".replace("-", "−") if math.isfinite(value) else number(value)


def _file(name: str) -> str:
    """Return a name that is safe in a file name."""
    return re.sub(r"[^\w.-]+", "_", name)[:60]
