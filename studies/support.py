"""Calibration of the support: predicted variance against squared errors on rows beyond a log's edge."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from nopg._support import LOG_ODDS_INSIDE, LOG_ODDS_SLOPE
from nopg.errors import NopgError
from nopg.models import LocalModel
from nopg.models._excitation import TOLERATED
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table
from studies.trust.case import NOISES, Case
from studies.trust.study import FIRST_SEEDS
from studies.trust.trial import Trial

# Points beyond each log, at most so many half ranges from its middle; the share of rows that are fitted.
_POINTS, _REACH, _INNER = 100, 1.5, 0.7
_SHARES = np.linspace(0.0, 1.0, 11)


def beyond(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted variances and squared errors (m,) of one step, of the worst column in its variance.

    A model of the inner rows of a log predicts points outside their box, which the plant is then asked for.
    """
    trial = Trial(Case(seed))
    world, data, rng = trial.world, trial.log.data, trial.world.rng("points beyond the log")
    x = np.concatenate([data.states.numpy(), data.actions.numpy()], axis=1)
    away = np.abs((x - np.median(x, axis=0)) / np.maximum(x.std(axis=0), 1e-12)).max(axis=1)
    inner = np.sort(np.argsort(away, kind="stable")[: round(_INNER * len(x))])
    model = LocalModel(data.take(torch.as_tensor(inner)))
    low, high = x[inner].min(axis=0), x[inner].max(axis=0)
    d_s = data.states.shape[1]
    drawn = (low + high) / 2 + rng.uniform(-_REACH, _REACH, (50 * _POINTS, len(low))) * (high - low) / 2
    drawn[:, d_s:] = np.clip(drawn[:, d_s:], world.dynamics.low, world.dynamics.high)
    drawn[:, :d_s] = np.maximum(drawn[:, :d_s], world.dynamics.least)
    points = drawn[((drawn < low) | (drawn > high)).any(axis=1)][:_POINTS]
    s, a = torch.as_tensor(points[:, :d_s]), torch.as_tensor(points[:, d_s:])
    after = world.dynamics.step(points[:, :d_s].copy(), points[:, d_s:])
    after = after + NOISES[world.facts.noise] * world.dynamics.scale * rng.normal(size=after.shape)
    found, spread = model.predict(s, a), model.rows.spread[:d_s]
    steps = data.schema.difference(s, torch.as_tensor(after))
    units = torch.where(spread > 0, spread, torch.inf)
    wrong = ((steps - found.displacement) / units).square().amax(dim=1)
    log_odds = model.support.log_odds(points)
    variance = (log_odds - LOG_ODDS_INSIDE) * TOLERATED / LOG_ODDS_SLOPE
    return variance + (found.noise / units).square().amax(dim=1).numpy(), wrong.numpy()


def _blank(seed: int) -> Record:
    role = "report" if seed >= FIRST_SEEDS["report"] else "development"
    return Record(study="support", benchmark="", seed=seed, role=role, commit=code_version("src/nopg/models"))


def _run(seed: int) -> list[Record]:
    began = time.process_time()
    try:
        variance, wrong = ([float(f"{one:.3g}") for one in part] for part in beyond(seed))
    except NopgError as error:
        return [replace(_blank(seed), summary={"refused": f"{type(error).__name__}: {error}"})]
    seconds = round(time.process_time() - began, 1)
    return [replace(_blank(seed), cpu_seconds=seconds, results={"variance": variance, "error": wrong})]


def _rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    variance, wrong = (
        np.concatenate([one.results[name] for one in records]) for name in ("variance", "error")
    )
    edges = np.quantile(variance, _SHARES)
    number = np.clip(np.searchsorted(edges, variance, side="right") - 1, 0, 9)
    rows: list[tuple[str, ...]] = []
    for k in range(10):
        predicted, made = variance[number == k].mean(), wrong[number == k].mean()
        median = np.median(wrong[number == k])
        rows.append(
            (str(k + 1), f"{predicted:.2g}", f"{made:.2g}", f"{median:.2g}", f"{predicted / made:.2g}")
        )
    return rows


def _page(records: Sequence[Record]) -> str:
    lines = [
        "# Calibration of the support",
        "",
        "Made by `python -m studies page support` from `results/studies/support.jsonl`; the runs by",
        "`python -m studies support --seeds 0-79` and `10000-10079`. Plants are those of the study of trust",
        f"without lags and noise of sensors. A model of the inner {_INNER:.0%} of the rows predicts one step",
        f"from {_POINTS} points outside their box, within {_REACH} times its width and the limits of the",
        "actions. Predicted is the variance that the log leaves open, and the noise; both this and the error",
        "are of the worst column, in units of its variance. Deciles are of the predicted variance.",
        "",
    ]
    for role in ("development", "report"):
        some = [one for one in last_of_each(records) if one.role == role and one.results]
        if some:
            heads = ("decile", "predicted variance", "mean squared error", "median", "predicted / mean")
            lines += [f"## {len(some)} {role} seeds", "", *table(heads, _rows(some)), ""]
    return "\n".join(lines)


def _jobs(given: argparse.Namespace) -> list[int]:
    worlds = ((seed, Trial(Case(seed)).world) for seed in given.seeds)
    return [seed for seed, world in worlds if not world.lags and not world.facts.sensor_noise]


SUPPORT = Study(
    name="support",
    about="predicted variance against squared errors beyond the edge of a log",
    arguments=lambda parser: parser.add_argument(
        "--seeds", required=True, type=seeds_of, help="such as 0-39"
    ),
    jobs=_jobs,
    run=_run,
    blank=_blank,
    page=_page,
    file="studies/pages/support.md",
)
