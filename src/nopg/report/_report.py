"""The report on a controller before it runs: its facts, and the page that shows them."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nopg._checks import check_target
from nopg._files import json_content, plain_values, write_files
from nopg._version import __version__
from nopg.data import Transitions
from nopg.data._set_points import set_points
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment
from nopg.evaluation._behavior import logged_returns
from nopg.evaluation._risk import region_of
from nopg.inspect import describe
from nopg.inspect._wording import count_of, duration, listed
from nopg.models import LocalModel
from nopg.policies import FormulaPolicy
from nopg.report._figures import closed_loops, column_order, differences, draw_loop, reward_picture
from nopg.report._page import number, render, sentence
from nopg.report._style import Picture
from nopg.training import TrainingResult

Region = str | Callable[[Any], Any]

_log = logging.getLogger(__name__)
# Formulas with more gains are not shown.
_MOST_GAINS = 8


@dataclass(frozen=True, eq=False, repr=False)
class PolicyReport:
    """What is predicted of a controller before it runs: facts by name, and figures."""

    facts: Mapping[str, Any]
    pictures: Mapping[str, Picture]

    @cached_property
    def html(self) -> str:
        """The page, as one self-contained HTML file."""
        return render("report.html", self.facts, self.pictures)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the page, and beside it the same as JSON; return both paths.

        Args:
            path: Path of the page; the other one ends in `.json`.
            overwrite: Whether existing files are replaced.
        """
        page = check_target(path, overwrite=overwrite, suffix=".html")
        beside = check_target(page.with_suffix(".json"), overwrite=overwrite)
        write_files({beside: json_content(plain_values(self.facts)), page: self.html.encode()})
        return [page, beside]


def policy_report(
    result: TrainingResult,
    *,
    regions: Sequence[str] | Mapping[str, Region] = (),
    steps: int | None = None,
    most: float | None = None,
    title: str = "What the controller will do",
) -> PolicyReport:
    """Return what is predicted of a trained controller before it runs.

    The controller and the logged behaviour are evaluated on the model that the controller was trained on; one
    of the paper's model is evaluated on a local model that is fitted for this. What is being done is logged
    at level INFO.

    Args:
        result: Returned by `optimize` or `load`, with its data.
        regions: Regions to avoid, see `OfflineEvaluator.risk`: expressions, or expressions and functions by
            name.
        steps: Steps within which entering counts; by default the length of the predicted paths.
        most: The largest tolerated probability of entering one of the regions: the report says whether it
            is kept, exceeded, or not shown by the data.
        title: Title of the page.
    """
    if most is not None and not (0.0 <= most <= 1.0 and regions):
        raise ArgumentError(f"most is {most}; give a probability, and regions that it is for")
    wanted = dict(regions) if isinstance(regions, Mapping) else {region: region for region in regions}
    _log.info("report: fitting the model of the plant")
    data, evaluator = result.data, result.evaluator
    for region in wanted.values():
        region_of(region, data.schema)  # a wrong name is reported before the rest of the work
    _log.info("report: predicting the controller and the logged behaviour")
    policy, logged = result.evaluation, evaluator.logged()
    within = len(policy.paths.states) if steps is None else steps
    risks = {}
    for name, region in wanted.items():
        _log.info("report: risk of %s", name)
        risks[name] = evaluator.risk(result.policy, region, within)
    _log.info("report: leaving out groups of episodes")
    influential = evaluator.influence(result.policy)
    _log.info("report: drawing")
    apart, drawn = differences(result)
    pictures = _pictures(result, policy, logged) | drawn
    facts = {
        "nopg": __version__,
        "title": title,
        "subtitle": (
            f"{', '.join(data.schema.measured)} → {', '.join(data.schema.actions)}; "
            f"{count_of(len(data), 'logged row')}, {_discount(result.discount, data.schema.interval)}"
        ),
        **_prediction(result, policy, logged),
        "differences": apart,
        "risks": {
            name: asdict(risk) | {"words": str(risk), "finding": None if most is None else risk.finding(most)}
            for name, risk in risks.items()
        },
        "most": most,
        "data": _data(data),
        "model": _model(evaluator.model),
        "influential": [
            {"words": where(data, rows), "rows": len(rows), "influence": value} for rows, value in influential
        ],
        **_training(result),
    }
    return PolicyReport(facts, pictures)


def _prediction(result: TrainingResult, policy: Assessment, logged: Assessment) -> dict[str, Any]:
    gain, seen = policy.gain_over(logged), logged_returns(result.data, result.discount)
    return {
        "verdict": policy.verdict,
        "sentence": sentence(policy, logged, gain),
        "discount": result.discount,
        "policy": policy.to_dict(),
        "logged": logged.to_dict(),
        "gain": gain.to_dict(),
        "logged_returns": None if seen is None else asdict(seen),
        "held_out": str(policy.held_out),
    }


def _discount(discount: float, interval: float | None) -> str:
    """Return the discount, and how far ahead it looks where the time between two rows is known.

    Example:
        >>> _discount(0.95, 10.0), _discount(0.95, None)
        ('discount 0.95 (horizon 3.25 min)', 'discount 0.95')
    """
    text = f"discount {discount:.5g}"
    if interval is None or discount == 0:
        return text
    return f"{text} (horizon {duration(-interval / math.log(discount))})"


def _training(result: TrainingResult) -> dict[str, Any]:
    law, gains, laws = result.policy.policy, dict[str, float](), dict[str, str]()
    if isinstance(law, FormulaPolicy):
        gains = dict(law.gains)
        laws = law.law.to_dict()["formulas"] if len(gains) <= _MOST_GAINS else {}
    return {
        "laws": laws,
        "gains": gains,
        "training": {
            "equation": result.problem.description,
            "updates": len(result.history),
            "expected_return": result.expected_return,
            "interval": result.interval,
            "unknown_mass": result.unknown_mass,
            "seed": result.seed,
        },
    }


def _pictures(result: TrainingResult, policy: Assessment, logged: Assessment) -> dict[str, Picture]:
    data, goals = result.data, set_points(result.data)
    first, others = column_order(data, goals)
    loops = closed_loops(policy, logged, data)
    found = {
        f"closed-loop-{k}": draw_loop(
            loop, first, goals, data.schema, f"From the start with the {name} gain ({number(loop.gain)})."
        )
        for k, (name, loop) in enumerate(loops.items(), start=1)
    }
    if others:
        text = "The other columns, from the start with the median gain."
        found["other-columns"] = draw_loop(loops["median"], others, goals, data.schema, text)
    found["reward"] = reward_picture(policy, logged, data.schema)
    return found


def _data(data: Transitions) -> dict[str, Any]:
    described = describe(data).to_dict()
    return {
        **{name: described[name] for name in ("rows", "episodes", "columns", "findings")},
        "states": list(data.schema.states),
        "actions": list(data.schema.actions),
        "interval": data.schema.interval,
    }


def _model(model: LocalModel) -> dict[str, Any]:
    schema, given, columns = model.data.schema, model.reward_function is not None, list[dict[str, Any]]()
    known = {"reward": "known function"} if given else {}
    known |= {
        name: "held" if kind == "hold" else "moves as in the log" for name, kind in schema.exogenous.items()
    }
    for one in model.column_fits:
        if one.name in schema.derived:
            continue
        every = len(one.inputs) == len(schema.states) + len(schema.actions)
        words = "all" if every else ", ".join(one.inputs)
        words = words if one.error > 0 and one.inputs else "none: constant"
        columns.append({**asdict(one), "known": known.get(one.name, ""), "words": words})
    return {"columns": columns, "reward_is_given": given, "noise_share": model.noise_share}


def where(data: Transitions, rows: tuple[int, ...]) -> str:
    """Return rows in words: whole episodes by their numbers, else the first and the last row."""
    if data.episodes is not None:
        numbers = torch.unique(data.episodes[list(rows)])
        if int(torch.isin(data.episodes, numbers).sum()) == len(rows):
            return f"episode{'' if len(numbers) == 1 else 's'} {listed(numbers.tolist())}"
    return f"{count_of(len(rows), 'row')} between {rows[0]} and {rows[-1]}"
