"""The commands that make a controller: describe, summarize, fit."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli import _log
from nopg.cli._screen import FLAWED, answer, note, width
from nopg.cli._settings import AsJson, LogOptions, Overwrite, check_writable, option
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.data import Transitions
    from nopg.large_logs import LogSummary
    from nopg.training import TrainingResult

_HORIZON = re.compile(r"\s*(\d+\.?\d*)\s*(ms|s|min|h|d)\s*")


def describe(
    log: LogOptions,
    *,
    strict: Annotated[bool, option("Exit with code 3 if data must be corrected.", "--strict")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a log, and say what to correct.

    Shows columns, episodes and sampling. DATA may be a folder of `nopg summarize`.

    Example: `nopg describe tank.csv --state level --action valve --time time`
    """
    from nopg.inspect import Grade
    from nopg.inspect import describe as describe_data

    settings = log.settings()
    summary = _log.saved_summary(settings["data"], plant=None)
    found = describe_data(_log.read(settings, needs_reward=False) if summary is None else summary)
    answer(found.to_dict(), found.to_text(width()), as_json=as_json)
    if strict and found.grade == Grade.ERROR:
        raise typer.Exit(FLAWED)


def summarize(
    log: LogOptions,
    *,
    out: Annotated[Path, option("Folder of the summary.", "--out", "-o", default=True)],
    plant: Annotated[str | None, option("Column that names the plant.")] = None,
    workers: Annotated[int | None, option("Number of processes.", default="one for each core", min=1)] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Summarize Parquet files that do not fit into memory, for `nopg fit`.

    With `--plant` each plant is reported, and `nopg fit OUT --plant NAME` trains for one.

    Example: `nopg summarize 'pumps-*.parquet' --plant pump -o pumps`
    """
    from nopg.large_logs import Fleet, LogSummary, save_summary, summarize, summarize_fleet
    from nopg.large_logs._files import holds_summary

    if holds_summary(out) and not overwrite:
        raise ArgumentError(f"{out} holds a summary already; give another name, or --overwrite")
    paths, columns = _log.for_one_pass(log.settings())
    logging.disable(logging.INFO)  # readers tell the same of every part of a log
    found: LogSummary | Fleet = (
        summarize(paths, workers=workers, **columns)
        if plant is None
        else summarize_fleet(paths, plant, workers=workers, **columns)
    )
    save_summary(found, out, overwrite=overwrite)
    report = None if isinstance(found, LogSummary) else found.report()
    values = {"summary": str(out), "rows": found.num_rows, "sample": len(found.sample)}
    shown = str(found)
    if report is not None:
        values |= {"plants": report.reset_index().to_dict("records")}
        shown = report.to_string(float_format="{:.3g}".format)
    answer(values, shown, as_json=as_json, then=f"next: nopg fit {out} -g 0.97 -o controller")


def fit(
    log: LogOptions,
    *,
    discount: Annotated[float | None, option("Discount factor γ.", "--discount", "-g")] = None,
    horizon: Annotated[str | None, option("Instead of γ: how far ahead to look, e.g. `3min`.")] = None,
    policy: Annotated[
        str | None,
        option(
            "`deterministic` or `gaussian` (networks), `p`, `pi`, `pid` or `linear`.",
            default="a network or LQR",
        ),
    ] = None,
    out: Annotated[Path | None, option("File of the controller.", "--out", "-o")] = None,
    seed: Annotated[int | None, option("Random seed.", default="0")] = None,
    plant: Annotated[str | None, option("Plant of a summary of several.", default="all")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a controller from a log, and save it.

    Needs columns, a cost or reward, and a discount or horizon. DATA may be a folder of `nopg summarize`.
    Ctrl-C stops after an update; the same command goes on.

    Example: `nopg fit tank.csv -s level -a valve --cost '(level - 1)**2' -g 0.95 -o tank`
    """
    typed = {"discount": discount, "horizon": horizon, "policy": policy, "seed": seed, "plant": plant}
    settings = log.settings(typed | {"out": None if out is None else str(out)})
    target, checkpoint = _check_before(settings, overwrite=overwrite)
    structure = _new_policy(settings)

    from nopg.training._saved import save_result

    began = time.perf_counter()
    summary = _log.saved_summary(settings["data"], settings.get("plant"))
    rows = _log.read(settings) if summary is None else summary.sample
    if "initial_states" in settings:
        rows = rows.starting_at(settings["initial_states"])
    source = rows if summary is None else replace(summary, sample=rows)
    note(str(source))
    gamma = settings["discount"] if "discount" in settings else _discount(settings["horizon"], rows)
    result = _train(source, gamma, structure, settings, checkpoint)
    with_data = summary is None and settings.get("save_data", True)
    how = _log.to_save(settings, result.policy.schema)
    save_result(result, target, with_data=with_data, overwrite=overwrite, log=how)
    checkpoint.unlink(missing_ok=True)
    seconds = time.perf_counter() - began
    logged = result.evaluator.logged()
    values = {"run": str(target), "seconds": seconds, **result.summary(), "model": result.problem.description}
    values |= {"columns": [asdict(one) for one in result.column_fits], "logged": logged.to_dict()}
    values |= {"gain": result.evaluation.gain_over(logged).to_dict()}
    shown = _in_words(result) | {"saved": str(target), "time": f"{seconds:.0f} s"}
    answer(
        values,
        shown,
        as_json=as_json,
        then=f"next: nopg report {target}, or nopg compare {target} --with lqr",
    )


def _check_before(settings: Mapping[str, Any], *, overwrite: bool) -> tuple[Path, Path]:
    """Return where the controller and its checkpoint go; refuse before reading what can be refused."""
    from nopg._checks import check_discount

    if "discount" in settings:
        check_discount(settings["discount"])
    elif "horizon" in settings:
        _seconds(settings["horizon"])
    else:
        raise ArgumentError("no discount or horizon is given; give --discount 0.97, or --horizon 3min")
    if not settings.get("out"):
        raise ArgumentError("no file for the controller is given; give a name, such as --out tank")
    out = Path(settings["out"])
    check_writable(out, overwrite=overwrite)
    check_writable(Path(settings["history"]) if "history" in settings else None, overwrite=True)
    return out, out.with_name(f"{out.name}.unfinished")


def _new_policy(settings: Mapping[str, Any]) -> Any:
    """Return what is to be trained: a type of network, a structure, or formulas."""
    from nopg.policies import ControlStructure, Formulas

    kind = settings.get("policy", "auto")
    if settings.get("formulas"):
        return Formulas(settings["formulas"], settings.get("gains", {}))
    if settings.get("gains"):
        raise ArgumentError("gains are given without formulas, whose first values they are")
    if kind not in {"auto", "deterministic", "gaussian"}:
        return ControlStructure(kind, settings.get("follows", {}))
    if settings.get("follows"):
        raise ArgumentError(f"--policy {kind} is a network or LQR; follows needs --policy p, pi or pid")
    return kind


def _seconds(horizon: str) -> float:
    from nopg.data.io._clock import TIME_UNITS

    found = _HORIZON.fullmatch(horizon)
    if found is None or float(found[1]) == 0:
        raise ArgumentError(f"the horizon is {horizon!r}; give a time with its unit, such as 3min or 90s")
    return float(found[1]) * TIME_UNITS[found[2]]


def _discount(horizon: str, data: Transitions) -> float:
    """Return γ = exp(−interval/horizon)."""
    interval = data.schema.interval
    if interval is None:
        raise ArgumentError(
            f"a horizon of {horizon} needs the time between two rows; name the time column with --time, or "
            "give the seconds with --set interval=10"
        )
    gamma = math.exp(-interval / _seconds(horizon))
    note(f"horizon {horizon}, a row every {interval:g} s: γ = {gamma:.5g}")
    return gamma


def _train(
    source: Transitions | LogSummary,
    discount: float,
    policy: Any,
    settings: Mapping[str, Any],
    checkpoint: Path,
) -> TrainingResult:
    """Return what `optimize` finds; it keeps a checkpoint that is removed at the end."""
    from nopg.training import CSVLogger, TrainingConfig, optimize

    config = TrainingConfig(
        updates=settings.get("updates"),
        seed=settings.get("seed", 0),
        start=settings.get("start", "auto"),
        callbacks=[CSVLogger(settings["history"])] if "history" in settings else [],
    )
    how = {"model": settings.get("model", "local"), "rates": settings.get("rates")}
    try:
        return optimize(source, discount, policy=policy, config=config, checkpoint=checkpoint, **how)
    except KeyboardInterrupt:  # as is TrainingInterrupted
        then = "goes on after the last checkpoint" if checkpoint.exists() else "starts again"
        raise KeyboardInterrupt(f"by Ctrl-C; the same command {then}") from None


def _in_words(result: TrainingResult) -> dict[str, str]:
    """Return what is shown of a training."""
    from nopg.inspect._wording import chance
    from nopg.policies import FormulaPolicy

    def returned(mean: float, interval: tuple[float, float] | None) -> str:
        return f"{mean:.5g}" + (", 95 % interval [{:.5g}, {:.5g}]".format(*interval) if interval else "")

    logged = result.evaluator.logged()
    gain = result.evaluation.gain_over(logged)
    rows = {
        "predicted return": f"{returned(result.expected_return, result.interval)}, γ = {result.discount:g}",
        "logged behaviour": returned(logged.expected_return, logged.interval),
        "gain": f"{gain.mean:+.4g} in [{gain.interval[0]:+.4g}, {gain.interval[1]:+.4g}], "
        f"P(better) {chance(gain.probability_better)}",
    }
    if isinstance(law := result.policy.policy, FormulaPolicy):
        rows |= {f"law of {name}": text for name, text in law.law.to_dict()["formulas"].items()}
        rows["gains"] = ", ".join(f"{name} = {value:.4g}" for name, value in law.gains.items())
    fits = result.evaluator.model.learned_fits
    unjudged = "none with the paper's model; `nopg report` evaluates the controller on the local model"
    return rows | {
        "verdict": "\n- ".join((result.verdict or unjudged, *result.reasons)),
        "notes": "\n".join(result.notes),
        "leaves the data": f"{100 * result.unknown_mass:.2f} % of the time, discounted",
        "held-out R²": ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in fits),
        "model": result.problem.description,
        "training": f"{len(result.history)} updates; start: {result.start}",
    }
