"""DMSD of NeoRL-2: two masses that follow targets, beside what others have published. A report: run once.

Data: `DMSD-train.npz` of the public data set of NeoRL-2 (arXiv 2503.19267, CC-BY 4.0). Simulator: `pip
install --no-deps neorl2==0.0.1`; the reward module that its package lacks is the formula of the data.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import nopg
from nopg import Transitions
from nopg.errors import DataError
from nopg.report._style import AFTER, BEFORE, LOGGED, finish, new_figure
from studies.records import Record, code_version, last_of_each
from studies.set_points import engineers_law
from studies.study import Study, table

# Fixed before the first run: discount, cost, roles and the weights of the rival.
_DISCOUNT, _STEPS, _EPISODES = 0.97, 100, 1_000
_COST = "log(abs(next(x1) - next(g1)) + 0.01) + log(abs(next(x2) - next(g2)) + 0.01)"
_WEIGHTS = (1e-4, 1e-3, 1e-2)
_STATES, _ACTIONS = ["x1", "x2", "v1", "v2", "g1", "g2"], ["u1", "u2"]
_PUBLISHED = {
    **{"the data": 494.5, "TD3+BC": 522.1, "behaviour cloning": 563.6, "CQL": 605.8, "MCQ": 667.3},
    **{"EDAC": 674.7, "an expert": 849.5},
}


def log(folder: Path, rows: int, *, stated: bool) -> Transitions:
    """Return the first rows of the published data, the cost stated or as a column."""
    path = folder / "DMSD-train.npz"
    if not path.exists():
        raise DataError(f"{path} does not exist; get the data of NeoRL-2 and give its folder with --data")
    arrays = np.load(path)
    data = Transitions.from_arrays(
        arrays["obs"][:rows],
        arrays["action"][:rows],
        np.ravel(arrays["reward"][:rows]),
        arrays["next_obs"][:rows],
        episodes=np.arange(rows) // _STEPS,
        state_names=_STATES,
        action_names=_ACTIONS,
        bounds=dict.fromkeys(_ACTIONS, (-1.0, 1.0)),
        exogenous={"g1": "log", "g2": "log"},
    )
    return data.with_reward(f"-({_COST})") if stated else data


@cache
def environment() -> Any:
    """Return the class of the simulator, with the reward that its package lacks."""
    reward = ModuleType("neorl2.envs.reward.dmsd_reward")

    def get_reward(step: dict[str, Any]) -> float:
        after = step["next_obs"]
        return float(-np.log(np.abs(after[:2] - after[4:]) + 0.01).sum())

    reward.__dict__["get_reward"] = get_reward
    sys.modules |= {"neorl2.envs.reward": ModuleType("neorl2.envs.reward"), reward.__name__: reward}
    try:
        from neorl2.envs.dmsd import DoubleMassSpringDamperEnv  # type: ignore[import-not-found]
    except ImportError as error:
        raise DataError(f"no simulator ({error}); pip install --no-deps neorl2==0.0.1") from None
    return DoubleMassSpringDamperEnv


def returns(law: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the sums of rewards of a law in all episodes, from seeds that are always the same."""
    environments = [environment()(mode="train") for _ in range(_EPISODES)]
    states = np.stack([one.reset(seed=seed)[0] for seed, one in enumerate(environments)])
    total = np.zeros(_EPISODES)
    for _ in range(_STEPS):
        made = [one.step(action) for one, action in zip(environments, np.asarray(law(states)), strict=True)]
        states, rewards = np.stack([one[0] for one in made]), np.array([one[1] for one in made])
        total += rewards
    return total


def _blank(job: tuple[Path, int, bool]) -> Record:
    _, rows, stated = job
    options = {"cost": "stated" if stated else "column"}
    commit = code_version("src/nopg")
    return Record(
        study="neorl2",
        benchmark="DMSD",
        method="nopg",
        rows=rows,
        commit=commit,
        role="report",
        options=options,
    )


def _run(job: tuple[Path, int, bool]) -> list[Record]:
    folder, rows, stated = job
    data, began = log(folder, rows, stated=stated), time.process_time()
    result = nopg.optimize(data, _DISCOUNT, config=nopg.TrainingConfig(progress=False))
    seconds = round(time.process_time() - began, 1)
    laws = {f"lqr {weight:g}": engineers_law(data, weight) for weight in _WEIGHTS}
    found = {name: returns(law) for name, law in {**laws, "nopg": result.policy}.items()}
    results = {
        name: {"mean": float(one.mean()), "error": float(one.std(ddof=1) / len(one) ** 0.5)}
        for name, one in found.items()
    }
    digest = hashlib.sha256((folder / "DMSD-train.npz").read_bytes()).hexdigest()
    summary = {"verdict": result.verdict, "expected_return": result.expected_return, "start": result.start}
    return [
        replace(
            _blank(job),
            cpu_seconds=seconds,
            undiscounted=results["nopg"]["mean"],
            episodes=_EPISODES,
            summary=summary,
            results=results,
            setup={"data": digest},
        )
    ]


def _page(records: Sequence[Record]) -> str:
    rows = []
    for one in sorted(last_of_each(records), key=lambda one: (str(one.options), one.rows)):
        cells = ["{mean:.1f} ± {error:.1f}".format(**one.results[name]) for name in one.results]
        verdict = f"{one.summary['verdict']}, {one.summary['start']}"
        rows.append((one.options["cost"], str(one.rows), *cells, verdict, f"{one.cpu_seconds:.0f}"))
    heads = ("cost", "rows", *(f"LQR {weight:g}" for weight in _WEIGHTS), "nopg", "verdict, start", "CPU s")
    return "\n".join(
        [
            "# DMSD of NeoRL-2",
            "",
            "Made by `python -m studies page neorl2` from `results/studies/neorl2.jsonl`; the runs by",
            "`python -m studies neorl2 --data FOLDER` with the public data set of NeoRL-2 (arXiv 2503.19267)",
            f"and its simulator. Mean sum of rewards of {_EPISODES} episodes of {_STEPS} steps, with its",
            f"standard error. γ = {_DISCOUNT}; the cost is",
            f"`{_COST}`,",
            "stated or as the column of the data. LQR is least squares on the same rows with weights of",
            "forces that an engineer tries. All settings were fixed before the first run.",
            "",
            "Published, from 100 000 rows and with the settings that the true return chose:",
            f"{', '.join(f'{name} {value}' for name, value in _PUBLISHED.items())}.",
            "EDAC, ± 18.8, is the best.",
            "",
            *table(heads, rows),
            "",
        ]
    )


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    bars = [(name, value, LOGGED) for name, value in _PUBLISHED.items()]
    for one in sorted(last_of_each(records), key=lambda one: (str(one.options), one.rows)):
        how = f"cost {'stated' if one.options['cost'] == 'stated' else 'as a column'}, {one.rows} rows"
        bars.append((f"nopg, {how}", one.results["nopg"]["mean"], AFTER))
    bars.append(("LQR of an engineer, 2000 rows", one.results["lqr 0.01"]["mean"], BEFORE))
    bars.sort(key=lambda bar: bar[1])
    figure = new_figure(4.8, 3.0)
    axis = figure.subplots()
    axis.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    finish(axis, x="sum of rewards of an episode", title="Grey: published, from 100 000 rows")
    return {"dmsd": figure}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, type=Path, help="folder of DMSD-train.npz")
    parser.add_argument("--rows", nargs="+", default=[500, 2_000], type=int, help="first rows of the data")
    parser.add_argument("--cost", nargs="+", default=["stated", "column"], choices=("stated", "column"))


NEORL2 = Study(
    name="neorl2",
    about="published data and published results: DMSD of NeoRL-2",
    arguments=_arguments,
    jobs=lambda given: [(given.data, rows, cost == "stated") for cost in given.cost for rows in given.rows],
    run=_run,
    blank=_blank,
    page=_page,
    figures=_figures,
    file="studies/pages/neorl2.md",
)
