"""The sections of an assurance page."""

from __future__ import annotations

from collections import Counter

from nopg._provenance import provenance
from nopg._version import __version__
from nopg.inspect import Grade
from nopg.inspect._wording import chance, count_of, share_of
from nopg.report._assurance_content import AssuranceContent
from nopg.report._hazards import HazardEvidence
from nopg.report._page import (
    bullets,
    fact_table,
    note,
    notice,
    page,
    paragraph,
    section,
    subsection,
    table,
    verdict,
)
from nopg.report._standards import STANDARDS
from nopg.report._time_axis import steps_text
from nopg.report._wording import LIMITS

NOTICE = (
    "This is a template, not a safety case. It claims no compliance with IEC 61508, ISO 21448, the AI Act or "
    "any other rule, and no safety integrity level. nopg was not developed under a safety standard; a "
    "trained controller with its guard is no safety function. Keep the independent interlocks of the plant."
)
NOT_SHOWN = (
    "Nothing on this page was measured on the plant. All numbers are predictions by a model of one log; "
    "there was no test on hardware.",
    "How often sensors, actuators, computers and networks fail is not known here, and no rate of dangerous "
    "failures follows.",
    "The plant is taken to be as it was in the log. Wear, repairs, another product or other weather are not "
    "covered. nopg monitor finds some changes, after they have happened.",
    "The predictions are those of the policy alone. What guard, fallback, last resort and the limit of "
    "changes do to the plant was not evaluated.",
    "The guard detects states without data and failed sensors, not dangerous states.",
    "The hazards were given. Whether the list is complete, and whether regions and limits are right, was not "
    "examined.",
    "Quantities that no column contains, and what happens between two samples, were not examined.",
    "Computing time, compiler and integration on the target were not examined, nor who may change its files "
    "or its measurements.",
)
_FINDINGS = {
    "predicted to keep": ("ok", "all upper ends are within their limits, and nothing vetoes that"),
    "predicted to exceed": ("not", "a lower end is above its limit"),
    "not shown": ("weak", "these data do not show it"),
}
_SEVERITY = ("predicted to keep", "not shown", "predicted to exceed")
_BLANK = "to be completed"


def assurance_html(case: AssuranceContent) -> str:
    """Return the page."""
    schema = case.result.policy.schema
    subtitle = (
        f"Template of a safety case; {', '.join(schema.states)} → {', '.join(schema.actions)}; "
        f"nopg {__version__}"
    )
    parts = [
        notice("not", NOTICE),
        _summary(case),
        _examined(case),
        section("3 Hazards", *(_hazard(f"3.{k}", one, case) for k, one in enumerate(case.hazards, start=1))),
        _guard(case),
        section(
            "5 What was not shown",
            bullets(NOT_SHOWN),
            subsection("Limits of the predictions", bullets(LIMITS)),
        ),
        _open_items(case),
        _standards(),
    ]
    return page(case.title, subtitle, parts)


def _summary(case: AssuranceContent) -> str:
    counts: Counter[str] = Counter(one.finding for one in case.hazards)
    worst = max(counts, key=_SEVERITY.index)
    kept = counts["predicted to keep"]
    cards = {
        name.capitalize(): (f"{counts[name]} of {len(case.hazards)}", meaning)
        for name, (_, meaning) in _FINDINGS.items()
    }
    rows = [
        (
            f"3.{k} {one.hazard.name}",
            limit.quantity,
            limit.tolerated,
            f"{chance(limit.low)} to {chance(limit.high)}",
            one.finding,
        )
        for k, one in enumerate(case.hazards, start=1)
        for limit in one.limits
    ]
    return section(
        "1 Result for the hazards",
        verdict(
            _FINDINGS[worst][0],
            f"{kept} of {count_of(len(case.hazards), 'hazard')} {'is' if kept == 1 else 'are'} predicted to "
            "keep the limits. A prediction is no proof: read sections 3 and 5.",
            cards,
        ),
        table(("hazard", "quantity", "limit", "predicted", "finding"), rows, numbers=(2, 3), long=0),
        note("Upper ends count leaving the data as being in the region, lower ends as staying away from it."),
    )


def _examined(case: AssuranceContent) -> str:
    result, evaluation = case.result, case.result.evaluation
    identity = dict(result.data_identity)
    fits = result.evaluator.model.learned_fits
    rows = [
        ("predicted return", case.sentence),
        ("verdict", _with_reasons(evaluation.verdict, evaluation.reasons)),
        ("notes", "; ".join(evaluation.notes)),
        ("data", ", ".join(f"{name} {value}" for name, value in identity.items())),
        ("findings in the data", _findings(case)),
        ("model of the plant", result.evaluator.problem.description),
        (
            "held-out R²",
            ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in fits) or "no column is learned",
        ),
        ("solves", _solves(case)),
        ("limits in training", "; ".join(map(str, result.constraints)) or "none"),
        ("random seed", f"{result.seed}"),
        ("made with", f"nopg {__version__}, commit {provenance()['commit'] or 'not known'}"),
    ]
    return section("2 What was examined", fact_table(rows))


def _findings(case: AssuranceContent) -> str:
    found = [f"{one.grade}: {one.what}" for one in case.description.findings if one.grade != Grade.OK]
    return "; ".join(found) or "none"


def _solves(case: AssuranceContent) -> str:
    proof = case.result.certificate
    done = "reached" if proof.converged else "did not reach"
    return f"{done} their tolerance; numerical error of the return at most {proof.return_error:.1e}"


def _hazard(place: str, one: HazardEvidence, case: AssuranceContent) -> str:
    hazard, risk, step = one.hazard, one.risk, case.result.policy.schema.interval
    rows = [
        ("region", hazard.region),
        ("consequence", hazard.consequence or _BLANK),
        *(("limit", f"{limit.quantity}: at most {limit.tolerated}") for limit in one.limits),
        ("entering the region", f"{risk}, within {steps_text(risk.steps, step)}"),
        (
            "time in the region",
            f"{chance(one.time_share)} of discounted time, between {chance(one.time_interval[0])} and "
            f"{chance(one.time_interval[1])}",
        ),
        ("data in the region", _data_inside(one)),
        ("guard in the region", _guard_inside(one, case)),
        ("protection without the controller", hazard.safeguard or _BLANK),
        ("what vetoes it", "; ".join(one.vetoes) or "nothing"),
    ]
    kind, meaning = _FINDINGS[one.finding]
    if one.finding == "not shown" and not one.vetoes:
        meaning = "an upper end is above its limit"
    return subsection(f"{place} {hazard.name}", notice(kind, f"{one.finding}: {meaning}"), fact_table(rows))


def _data_inside(one: HazardEvidence) -> str:
    inside = one.risk.rows_inside
    text = f"{inside} of {count_of(one.rows, 'logged state')}"
    if one.episodes_inside:
        text += f", in {count_of(one.episodes_inside, 'episode')}"
    return text if one.unknown is None else f"{text}; unknown share {share_of(one.unknown)} (median)"


def _guard_inside(one: HazardEvidence, case: AssuranceContent) -> str:
    if case.guard is None:
        return "no guard was given"
    if one.policy_acts is None:
        return "no logged state lies inside, so the guard should hand over there; that was not shown"
    if not one.policy_acts:
        return "it hands over at every logged state inside"
    return (
        f"the policy goes on acting at {share_of(one.policy_acts)} of the logged states inside: the guard "
        "does not keep the plant out of the region"
    )


def _guard(case: AssuranceContent) -> str:
    if case.guard is None:
        return section("4 Guard and fallback", paragraph("No guard was given."))
    rows = [(name, value, meaning) for name, (value, meaning) in case.guard_settings.items()]
    chosen = "All settings are defaults. " if case.guard_is_default else ""
    return section(
        "4 Guard and fallback",
        paragraph(
            f"{chosen}In every step the guard applies the policy, the fallback or the last resort; it leaves "
            "the policy at once where the data end or a sensor fails. The option --guard of nopg export "
            "writes the same settings into C and FMU."
        ),
        table(("setting", "value", "meaning"), rows, long=2),
    )


def _open_items(case: AssuranceContent) -> str:
    people = ("responsible for the plant", "independent reviewer")
    return section(
        "6 To be completed",
        bullets(case.open_items),
        fact_table((role, "name, decision, date:") for role in people),
    )


def _standards() -> str:
    parts = [
        subsection(name, table(("", "heading", "section of this page", "needed besides"), rows, long=1))
        for name, rows in STANDARDS.items()
    ]
    return section(
        "7 Where readers of standards find something",
        paragraph(
            "Headings, and the sections of this page that help to answer them. No row says that a "
            "requirement is met. ISO 21448 is about road vehicles; whether a document applies to the plant, "
            "its owner decides."
        ),
        *parts,
    )


def _with_reasons(word: str, reasons: tuple[str, ...]) -> str:
    return word + (f": {'; '.join(reasons)}" if reasons else "")
