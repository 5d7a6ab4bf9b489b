"""A report as plain values, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nopg._json import plain_values
from nopg._version import __version__
from nopg.evaluation import Risk
from nopg.report._content import ReportContent
from nopg.report._page import thinned
from nopg.report._pictures import Picture
from nopg.report._sections import MOST_CELLS
from nopg.report._wording import LIMITS

_GAIN = ("values", "returns", "low", "high")


def facts_of(report: ReportContent) -> dict[str, Any]:
    """Return the content of the page."""
    result, model = report.result, report.result.evaluator.model
    described = report.description.to_dict()
    facts: dict[str, Any] = {
        "nopg": __version__,
        "title": report.title,
        "verdict": report.policy.verdict,
        "sentence": report.sentence,
        "discount": result.discount,
        "policy": report.policy.to_dict(),
        "logged": report.logged.to_dict(),
        "gain": report.gain.to_dict(),
        "seen": None if report.seen is None else asdict(report.seen),
        "data": {
            **{name: described[name] for name in ("rows", "episodes", "columns", "findings")},
            "starts": len(report.data.starts),
            "states": list(report.data.schema.states),
            "actions": list(report.data.schema.actions),
        },
        "model": {
            "columns": [asdict(fit) for fit in model.column_fits],
            "reward_is_given": model.reward_function is not None,
            "noise_share": model.noise_share,
        },
        "risks": {
            name: {**asdict(risk), "words": str(risk), **_limit(risk, report.most)}
            for name, risk in report.risks.items()
        },
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
        "gains": None
        if report.gains is None
        else {
            one.name: {"value": one.value, **{part: getattr(one, part).tolist() for part in _GAIN}}
            for one in report.gains
        },
        "deviations": None
        if report.deviations is None
        else [
            {
                "share": one.share,
                "limit": list(one.limit),
                "interval": one.evaluation.interval,
                "gain": one.gain.to_dict(),
                "verdict": one.evaluation.verdict,
            }
            for one in report.deviations
        ],
        "certificate": asdict(result.certificate),
        "limits": list(LIMITS),
        "pictures": {name: _numbers(picture) for name, picture in report.maps.items()},
        "trajectories": {name: _numbers(picture) for name, picture in report.trajectories.items()},
    }
    plain: dict[str, Any] = plain_values(facts)
    return plain


def _numbers(picture: Picture) -> dict[str, list[float]]:
    columns, _ = thinned(picture.table, MOST_CELLS)
    return {name: [float(f"{value:.6g}") for value in column] for name, column in columns.items()}


def _limit(risk: Risk, most: float | None) -> dict[str, Any]:
    return {} if most is None else {"most": most, "finding": risk.finding(most)}
