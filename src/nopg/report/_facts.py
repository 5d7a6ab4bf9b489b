"""A report as plain values, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nopg._json import plain_values
from nopg._version import __version__
from nopg.evaluation import OfflineEvaluation
from nopg.report._page import thinned
from nopg.report._pictures import Picture
from nopg.report._sections import LIMITS, MOST_CELLS

if TYPE_CHECKING:
    from nopg.report._policy_report import PolicyReport

__all__ = ["facts_of"]


def facts_of(report: PolicyReport) -> dict[str, Any]:
    """Return everything that the page says."""
    facts: dict[str, Any] = plain_values(_said(report))
    return facts


def _said(report: PolicyReport) -> dict[str, Any]:
    result, model = report.result, report.result.evaluator.model
    coverage = report.description.coverage
    return {
        "nopg": __version__,
        "title": report.title,
        "verdict": report.policy.verdict,
        "sentence": report.sentence,
        "discount": result.discount,
        "policy": _evaluation(report.policy),
        "logged": _evaluation(report.logged),
        "gain": asdict(report.gain),
        "seen": None if report.seen is None else asdict(report.seen),
        "data": {
            "rows": report.description.num_rows,
            "episodes": str(report.description.episodes),
            "starts": len(report.data.starts),
            "states": list(report.data.schema.states),
            "actions": list(report.data.schema.actions),
            "columns": [
                {name: getattr(column, name) for name in ("name", "role", "unit", "low", "median", "high")}
                for column in report.description.columns
            ],
            "findings": [
                {**asdict(finding), "grade": str(finding.grade)} for finding in report.description.findings
            ],
            "effective_neighbors": None if coverage is None else float(coverage.neighbors.median()),
        },
        "model": {
            "columns": [asdict(fit) for fit in model.column_fits],
            "reward_is_given": model.reward_function is not None,
            "noise_share": model.noise_share,
        },
        "risks": {name: {**asdict(risk), "words": str(risk)} for name, risk in report.risks.items()},
        "sensitivity": [asdict(variation) for variation in report.variations],
        "influential": [
            {
                "episodes": list(part.episodes),
                "first_row": part.rows[0],
                "last_row": part.rows[-1],
                "rows": len(part.rows),
                "influence": part.influence,
            }
            for part in report.influential
        ],
        "training": {
            "equation": result.problem.description,
            "updates": len(result.history),
            "expected_return": result.expected_return,
            "unknown_mass": result.unknown_mass,
            "start_unknown": result.start_unknown,
            "seed": result.seed,
        },
        "certificate": asdict(result.certificate),
        "limits": list(LIMITS),
        "pictures": {name: _numbers(picture) for name, picture in report.maps.items()},
        "trajectories": {name: _numbers(picture) for name, picture in report.trajectories.items()},
    }


def _evaluation(one: OfflineEvaluation) -> dict[str, Any]:
    names = (
        "expected_return",
        "interval",
        "standard_error",
        "unknown_mass",
        "pessimistic_return",
        "verdict",
        "reasons",
    )
    return {name: getattr(one, name) for name in names}


def _numbers(picture: Picture) -> dict[str, list[float]]:
    columns, _ = thinned(picture.table, MOST_CELLS)
    return {name: [float(f"{value:.6g}") for value in column] for name, column in columns.items()}
