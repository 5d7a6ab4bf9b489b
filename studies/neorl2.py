"""Tasks of NeoRL-2, beside what others have published. A report: run once.

Data, costs and simulators: `neorl2_tasks.py`; where they are from: `studies/data.md`.
"""

from __future__ import annotations

import argparse
import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nopg
from nopg import Transitions
from nopg.errors import NopgError
from nopg.report._style import AFTER, BEFORE, LOGGED, finish, new_figure
from studies.neorl2_tasks import TASKS, Array
from studies.records import Record, code_version, last_of_each
from studies.set_points import engineers_law
from studies.study import Study, table

# Of the rival on DMSD, least squares + LQR: weights of forces that an engineer tries.
_WEIGHTS = (1e-4, 1e-3, 1e-2)
_DMSD = TASKS["DMSD"]


class _Job(NamedTuple):
    folder: Path
    task: str
    rows: int
    stated: bool


def _blank(job: _Job) -> Record:
    return Record(
        study="neorl2",
        benchmark=job.task,
        method="nopg",
        rows=job.rows,
        commit=code_version("src/nopg"),
        role="report",
        options={"cost": "stated" if job.stated else "column"},
    )


def _run(job: _Job) -> list[Record]:
    task = TASKS[job.task]
    data, whole = task.log(job.folder, job.rows, stated=job.stated), task.log(job.folder, None, stated=False)
    findings = [str(one) for one in nopg.describe(data).findings if one.grade != "ok"]
    summary: dict[str, Any] = {}
    results, began = {"data": _mean(_logged_returns(whole))}, time.process_time()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = nopg.optimize(data, task.discount, config=nopg.TrainingConfig(progress=False))
    except NopgError as error:
        said, summary = [], {"verdict": "refused", "reasons": [str(error)]}
    else:
        summary = {"verdict": found.verdict, "reasons": list(found.reasons), "start": found.start}
        summary |= {"expected_return": found.expected_return, "interval": found.interval}
    seconds, states = round(time.process_time() - began, 1), data.schema.states
    summary["findings"] = findings
    laws: dict[str, Any] = {
        f"lqr {weight:g}": engineers_law(data, weight) for weight in _WEIGHTS if task is _DMSD
    }
    laws |= {} if summary["verdict"] == "refused" else {"nopg": found.policy}
    rewards = {name: task.rewards(law, states) for name, law in laws.items()}
    results |= {name: _mean(one[: task.steps].sum(axis=0)) for name, one in rewards.items()}
    if "nopg" in rewards:
        summary["true_return"] = _mean(task.discount ** np.arange(len(rewards["nopg"])) @ rewards["nopg"])
    return [
        replace(
            _blank(job),
            cpu_seconds=seconds,
            undiscounted=results.get("nopg", {}).get("mean"),
            episodes=task.episodes,
            warnings=tuple(str(one.message) for one in said),
            summary=summary,
            results=results,
            setup={"data": hashlib.sha256((job.folder / task.file).read_bytes()).hexdigest()},
        )
    ]


def _mean(found: Array) -> dict[str, float]:
    return {"mean": float(found.mean()), "error": float(found.std(ddof=1) / len(found) ** 0.5)}


def _logged_returns(data: Transitions) -> Array:
    assert data.episodes is not None
    return np.bincount(data.episodes.numpy(), weights=data.rewards.numpy()).astype(np.float64)


def _sorted(records: Sequence[Record]) -> list[Record]:
    return sorted(last_of_each(records), key=lambda one: (str(one.options), one.rows))


def _thousands(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _cell(one: Record, name: str) -> str:
    return "{mean:.1f} ± {error:.1f}".format(**one.results[name]) if name in one.results else "—"


def _page(records: Sequence[Record]) -> str:
    rows, others, said = [], [], []
    for one in _sorted(records):
        verdict, start = one.summary["verdict"], one.summary.get("start", "")
        last = (f"{verdict}, {start}" if start else verdict, f"{one.cpu_seconds:.0f}")
        first = (one.options["cost"], _thousands(one.rows))
        if one.benchmark == "DMSD":
            names = [*(f"lqr {weight:g}" for weight in _WEIGHTS), "nopg"]
            rows.append((*first, *(_cell(one, name) for name in names), *last))
            continue
        said += [f"- {one.benchmark}, {one.rows} rows: {text}" for text in _said(one)]
        others.append((one.benchmark, *first, _cell(one, "data"), _cell(one, "nopg"), *last))
    promised = [_promise(one) for one in _sorted(records) if "true_return" in one.summary]
    heads = ("cost", "rows", *(f"LQR {weight:g}" for weight in _WEIGHTS), "nopg", "verdict, start", "CPU s")
    published = [
        f"- {name}: {', '.join(f'{key} {value:g}' for key, value in one.published.items())}"
        for name, one in TASKS.items()
    ]
    return "\n".join(
        [
            "# Tasks of NeoRL-2",
            "",
            "Made by `python -m studies page neorl2` from `results/studies/neorl2.jsonl`; the runs by",
            "`python -m studies neorl2 --data FOLDER` with the public data set of NeoRL-2 (arXiv 2503.19267)",
            "and its simulators ([data.md](../data.md)). Mean sum of rewards of the simulator's episodes,",
            f"{_DMSD.episodes} on DMSD and 100 elsewhere, with its standard error. Discounts, columns and",
            "costs (`studies/neorl2_tasks.py`) were fixed before the first run.",
            "",
            "Published, from 100 000 rows and with the settings that the true return chose:",
            "",
            *published,
            "",
            "## DMSD",
            "",
            f"γ = {_DMSD.discount}; the reward is",
            f"`{_DMSD.reward}`,",
            "stated or as the column of the data. LQR is least squares on the same rows with weights of",
            "forces that an engineer tries.",
            "",
            *table(heads, rows),
            "",
            "## Others",
            "",
            "The data are all rows of the file that was read: validation rows, but for Simglucose.",
            "",
            *table(("task", "cost", "rows", "the data", "nopg", "verdict, start", "CPU s"), others),
            "",
            "## Predicted and true",
            "",
            "Discounted returns, the true ones over the steps of an episode, on DMSD 200. After those of",
            "Fusion 5 % of the weight are left, elsewhere less than 1 %.",
            "",
            *table(("task", "cost", "rows", "predicted, 95 %", "true", "verdict"), promised),
            "",
            "What `describe` and the verdict say:",
            "",
            *said,
            "",
        ]
    )


def _promise(one: Record) -> tuple[str, ...]:
    found = one.summary
    ends = "{expected_return:.4g} [{interval[0]:.4g}, {interval[1]:.4g}]".format(**found)
    true = "{mean:.4g} ± {error:.2g}".format(**found["true_return"])
    return (
        one.benchmark,
        one.options["cost"],
        f"{one.rows:,}".replace(",", " "),
        ends,
        true,
        found["verdict"],
    )


def _said(one: Record) -> list[str]:
    """Return what was said before the training, and the reasons of the verdict."""
    return [
        *one.summary["findings"],
        *(f"[{one.summary['verdict']}] {text}" for text in one.summary["reasons"]),
    ]


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    bars = [(name, value, LOGGED) for name, value in _DMSD.published.items()]
    for one in _sorted([one for one in records if one.benchmark == "DMSD"]):
        how = {"stated": "cost stated", "column": "cost as a column"}[one.options["cost"]]
        bars.append((f"nopg, {how}, {_thousands(one.rows)} rows", one.results["nopg"]["mean"], AFTER))
    bars.append(("LQR of an engineer", one.results["lqr 0.01"]["mean"], BEFORE))
    bars.sort(key=lambda bar: bar[1])
    figure = new_figure(4.8, 3.0)
    axis = figure.subplots()
    axis.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    finish(axis, x="sum of rewards of an episode", title="Grey: published, from 100 000 rows")
    return {"dmsd": figure}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, type=Path, help="folder of the data")
    parser.add_argument("--task", nargs="+", default=[*TASKS], choices=[*TASKS])
    parser.add_argument("--rows", nargs="+", type=int, help="first rows of the data")
    parser.add_argument("--cost", nargs="+", choices=("stated", "column"), help="both for DMSD, else stated")


def _jobs(given: argparse.Namespace) -> list[_Job]:
    return [
        _Job(given.data, name, rows, cost == "stated")
        for name in given.task
        for cost in given.cost or (["stated", "column"] if name == "DMSD" else ["stated"])
        for rows in given.rows or TASKS[name].rows
    ]


NEORL2 = Study(
    name="neorl2",
    about="published data and published results: tasks of NeoRL-2",
    arguments=_arguments,
    jobs=_jobs,
    run=_run,
    blank=_blank,
    page=_page,
    figures=_figures,
    file="studies/pages/neorl2.md",
)
