"""A template of a safety case from one run: hazards, evidence, guard, and what was not shown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from nopg._json import plain_values, write_json
from nopg._provenance import provenance
from nopg.deploy import GuardedController
from nopg.inspect import describe
from nopg.report._assurance_content import AssuranceContent
from nopg.report._assurance_page import NOT_SHOWN, NOTICE, assurance_html
from nopg.report._hazards import Hazard, hazard_evidence
from nopg.report._policy_report import report_files
from nopg.report._wording import LIMITS
from nopg.training import TrainingResult


class AssuranceCase(AssuranceContent):
    """A template of a safety case for a trained policy; `save` writes it. It claims no compliance.

    Attributes:
        title: Title of the page.
        result: The training.
        description: The checks of the data.
        logged: Evaluation of the logged behaviour, imitated.
        gain: Of the policy over the logged behaviour.
        hazards: What the run shows about each hazard.
        guard: The guard of the controller, if one was given.
        fallback: Which controller acts where the policy may not, in the words of the user.
    """

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The content of the page as plain values; NaN and infinities are None."""
        evaluation = self.result.evaluation
        plain: dict[str, Any] = plain_values(
            {
                "notice": NOTICE,
                "title": self.title,
                "hazards": [asdict(one) for one in self.hazards],
                "guard": {name: value for name, (value, _) in self.guard_settings.items()},
                "sentence": self.sentence,
                "verdict": evaluation.verdict,
                "reasons": evaluation.reasons,
                "data": dict(self.result.data_identity),
                "not_shown": [*NOT_SHOWN, *LIMITS],
                "open_items": self.open_items,
                **provenance(),
            }
        )
        return plain

    @cached_property
    def html(self) -> str:
        """The page, as one self-contained HTML file."""
        return assurance_html(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the page, and beside it the same as JSON; return both paths.

        Args:
            path: Path of the page; the other one ends in `.json`.
            overwrite: Whether existing files are replaced.
        """
        page, facts = files = report_files(path, overwrite=overwrite)
        write_json(facts, self.facts)
        page.write_text(self.html, encoding="utf-8")
        return files

    def __repr__(self) -> str:
        found = ", ".join(f"{one.hazard.name}: {one.finding}" for one in self.hazards)
        return f"AssuranceCase({found})"


def assurance_case(
    result: TrainingResult,
    hazards: Sequence[Hazard],
    *,
    guard: GuardedController | None = None,
    fallback: str | None = None,
    steps: int | None = None,
    title: str = "Safety case template",
) -> AssuranceCase:
    """Return a template of a safety case from one run: what it shows about hazards, and what it does not.

    A limit counts as kept only if the upper end of its prediction keeps it and nothing vetoes the prediction:
    the verdicts on the risk and on the return are `ok`, and the solves converged.

    Args:
        result: Returned by `optimize` or `load`, with its data.
        hazards: Regions with their limits.
        guard: The controller with the guard that will run.
        fallback: Which controller acts where the policy may not.
        steps: Steps within which entering a region counts, for hazards that do not say; by default the length
            of the predicted paths.
        title: Title of the page.
    """
    evidence = hazard_evidence(result, hazards, guard, steps)
    logged = result.evaluator.logged()
    return AssuranceCase(
        title=title,
        result=result,
        description=describe(result.data, model=result.evaluator.model),
        logged=logged,
        gain=result.evaluation.gain_over(logged),
        hazards=evidence,
        guard=guard,
        fallback=fallback,
    )
