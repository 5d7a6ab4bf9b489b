"""The report on a policy before it runs: one page, and the same as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from nopg._files import write_files
from nopg._json import json_content
from nopg.errors import ArgumentError
from nopg.evaluation._behavior import logged_returns
from nopg.inspect import describe
from nopg.policies import FormulaPolicy
from nopg.report._content import ReportContent
from nopg.report._facts import facts_of
from nopg.report._influential import influential_parts
from nopg.report._pictures import result_pictures
from nopg.report._sections import page_of
from nopg.report._sensitivity import Variation, vary_discount
from nopg.report._trajectories import trajectory_pictures
from nopg.training import TrainingResult
from nopg.training._sensitivity import may_deviate

Region = str | Callable[[Any], Any]


class PolicyReport(ReportContent):
    """What is predicted of a trained policy before it runs; `save` writes it.

    Attributes:
        title: Title of the page.
        result: The training.
        data: The training data, in the order of the log.
        description: The checks of the data.
        policy: Evaluation of the policy.
        logged: Evaluation of the logged behaviour, imitated.
        gain: Of the policy over the logged behaviour.
        seen: Returns of the logged episodes, where these are long enough.
        risks: Of entering regions, by name.
        most: The largest tolerated risk, if one was given.
        variations: The evaluation with this discount, then with others.
        influential: Groups of rows by their influence on the predicted return.
        maps: Training curve and maps by name; see `nopg.report.result_pictures`.
        trajectories: Fan charts by column.
        gains: Of a controller that is formulas, with the return that is predicted around each.
        deviations: What is predicted if the controller may deviate from the logged one by little, or more.
    """

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The content of the page as plain values; NaN and infinities are None."""
        return facts_of(self)

    @cached_property
    def html(self) -> str:
        """The page, as one self-contained HTML file."""
        return page_of(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the page, and beside it the same as JSON; return both paths.

        Args:
            path: Path of the page; the other one ends in `.json`.
            overwrite: Whether existing files are replaced.
        """
        files = report_files(path, overwrite=overwrite)
        page, facts = files
        write_files({facts: json_content(self.facts), page: self.html.encode()})
        return files

    def __repr__(self) -> str:
        return f"PolicyReport({self.sentence})"


def policy_report(
    result: TrainingResult,
    *,
    regions: Sequence[str] | Mapping[str, Region] = (),
    steps: int | None = None,
    most: float | None = None,
    columns: Sequence[str] | None = None,
    held: Mapping[str, float] | None = None,
    title: str = "What the policy will do",
) -> PolicyReport:
    """Return what is predicted of a trained policy before it runs.

    The policy and the logged behaviour are evaluated on the model that the policy was trained on, and again
    with other discounts. A policy of the paper's model is evaluated on a local model that is fitted for this.

    Args:
        result: Returned by `optimize` or `load`, with its data.
        regions: Regions to avoid, see `OfflineEvaluator.risk`: expressions, or expressions and functions by
            name.
        steps: Steps within which entering counts; by default the length of the predicted paths.
        most: The largest tolerated probability of entering one of the regions: the report says whether it
            is kept, exceeded, or not shown by the data.
        columns: State columns of the maps; see `nopg.report.result_pictures`.
        held: Values of the other state columns on the maps.
        title: Title of the page.
    """
    if most is not None and not (0.0 <= most <= 1.0 and regions):
        raise ArgumentError(f"most is {most}; give a probability, and regions that it is for")
    data, evaluator = result.data, result.evaluator
    maps = result_pictures(result, data, columns=columns, held=held)
    policy, logged = result.evaluation, evaluator.logged()
    gain = policy.gain_over(logged)
    wanted = dict(regions) if isinstance(regions, Mapping) else {region: region for region in regions}
    within = len(policy.paths.states) if steps is None else steps
    risks = {name: evaluator.risk(result.policy, region, within) for name, region in wanted.items()}
    return PolicyReport(
        title=title,
        result=result,
        data=data,
        description=describe(data),
        policy=policy,
        logged=logged,
        gain=gain,
        seen=logged_returns(data, result.discount),
        risks=risks,
        most=most,
        variations=(Variation.of(result.discount, policy, gain), *vary_discount(result)),
        influential=influential_parts(result),
        maps=maps,
        trajectories=trajectory_pictures(policy, logged, data),
        gains=result.gains if isinstance(result.policy.policy, FormulaPolicy) else None,
        deviations=result.deviations if may_deviate(result.policy.policy) else None,
    )


def write_report(
    result: TrainingResult,
    path: str | os.PathLike[str],
    *,
    regions: Sequence[str] | Mapping[str, Region] = (),
    steps: int | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write what is predicted of a trained policy as one HTML file, and beside it as JSON; return both paths.

    The page needs no network and holds figures and their numbers. For more options see `policy_report`.

    Args:
        result: Returned by `optimize` or `load`, with its data.
        path: Path of the page.
        regions: Regions to avoid.
        steps: Steps within which entering counts.
        overwrite: Whether existing files are replaced.

    Example:
        >>> import tempfile
        >>> import nopg
        >>> from nopg.envs import Pendulum, collect_grid
        >>> data, one = collect_grid(Pendulum(), (8, 8, 2)), nopg.TrainingConfig(updates=1)
        >>> result = nopg.optimize(data, 0.5, model="paper", config=one)
        >>> written = write_report(result, tempfile.mkdtemp() + "/report.html", regions=["abs(velocity) > 7"])
        >>> [path.name for path in written]
        ['report.html', 'report.json']
    """
    report_files(path, overwrite=overwrite)  # before the work, not after it
    return policy_report(result, regions=regions, steps=steps).save(path, overwrite=overwrite)


def report_files(path: str | os.PathLike[str], *, overwrite: bool) -> list[Path]:
    """Return the paths of page and JSON; refuse another suffix and existing files."""
    page = Path(path)
    if page.suffix.lower() not in {".html", ".htm"}:
        raise ArgumentError(f"{page} does not end in .html; a report is one HTML file")
    files = [page, page.with_suffix(".json")]
    if not overwrite and (taken := [str(file) for file in files if file.exists()]):
        raise ArgumentError(f"{' and '.join(taken)} exist already; give another path, or overwrite")
    return files
