"""The commands on a saved controller: compare, evaluate, report, export, monitor, advise."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli import _log
from nopg.cli._screen import answer, note
from nopg.cli._settings import (
    AsJson,
    LogOptions,
    Overwrite,
    Run,
    Texts,
    argument,
    check_keys,
    check_writable,
    option,
    read_toml,
)
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from nopg.data import Schema
    from nopg.deploy import GuardedController
    from nopg.evaluation import OfflineEvaluator
    from nopg.monitoring import Status
    from nopg.training import TrainingResult

EXIT_CODES = {"ok": 0, "check": 4, "retrain": 5, "revert": 6}
"""By the verdict of `nopg monitor`."""


def compare(
    run: Run,
    log: LogOptions,
    *,
    others: Annotated[
        Texts,
        option(
            "Another RUN; a function of states (m, d_s) as `FILE.py:NAME`, which is executed; or a baseline: "
            "`lqr`, `mpc`, `cloning`, `simc`, `neural`, by d3rlpy `td3bc`, `iql`, `cql`. Repeat for each.",
            "--with",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the predicted returns of controllers.

    All are evaluated on one model: that of RUN, or one of DATA.

    Example: `nopg compare tank --with lqr --with pi.py:controller --with older-tank`
    """
    from nopg.baselines import BASELINES
    from nopg.training import load

    result = load(run)
    policies: dict[str, Any] = {run.stem: result.policy}
    baselines: list[str] = []
    for text in others or []:
        if text in policies or text in baselines:
            raise ArgumentError(f"{text!r} is given twice; give each controller once")
        if text in BASELINES:
            baselines.append(text)
        else:
            policies[text] = _policy(text, result.policy.schema)
    found = _evaluator(run, result, log.settings(needs_data=False)).compare(policies, baselines=baselines)
    values: dict[str, Any] = {"discount": result.discount, "best": found.best}
    values |= {"evaluations": {name: one.to_dict() for name, one in found.evaluations.items()}}
    values |= {"gains": {name: gain.to_dict() for name, gain in found.gains.items()}}
    values |= {"seen": None if found.seen is None else asdict(found.seen)}
    answer(values, str(found), as_json=as_json)


def evaluate(run: Run, log: LogOptions, *, as_json: AsJson = False) -> None:
    """Check a predicted return by another log.

    Shows the return that DATA alone predict. `nopg monitor` shows what a run has returned.

    Example: `nopg evaluate tank may.csv`
    """
    from nopg.evaluation import evaluate_on_log
    from nopg.training import load

    result, settings = load(run), log.settings()
    found = evaluate_on_log(result, _log.read_like(run, result, settings))
    values = {"log": settings["data"], "discount": result.discount, **found.to_dict()}
    answer(values, found.rows(), as_json=as_json)


def advise(
    run: Run,
    log: LogOptions,
    *,
    rows: Annotated[int, option("Rows of the experiment.", default=True)] = 200,
    seed: Annotated[int, option("Random seed.", default=True)] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare experiments on the plant by how much they narrow the interval of the return of RUN.

    Actions and states stay within their bounds; states without bounds within the range of the log.

    Example: `nopg advise tank --set 'bounds.valve=[0.2, 0.8]' --rows 200`
    """
    from nopg.advice import advise as compare_experiments
    from nopg.training import load

    settings, result = log.settings(needs_data=False), load(run)
    limits = settings.pop("bounds", None)
    data = _evaluator(run, result, settings).data
    found = compare_experiments(data, result.policy, result.discount, bounds=limits, rows=rows, seed=seed)
    experiments = [
        {"experiment": str(one)}
        | {part.name: getattr(one, part.name) for part in fields(one) if part.name != "action_box"}
        | {"initial_states": one.initial_states.tolist()}
        for one in found.experiments
    ]
    values = {"needed": found.needed, "today": found.today.to_dict(), "experiments": experiments}
    answer(values | {"notes": found.notes}, str(found), as_json=as_json)


def report(
    run: Run,
    *,
    out: Annotated[Path | None, option("The HTML file.", "--out", "-o", default="RUN-report.html")] = None,
    region: Annotated[Texts, option("Region to avoid, e.g. `level > 2 or abs(speed) > 1`.")] = None,
    steps: Annotated[
        int | None,
        option("Steps within which entering counts.", default="length of the predicted paths", min=1),
    ] = None,
    most: Annotated[float | None, option("Tolerated probability of entering.", min=0, max=1)] = None,
    figures: Annotated[Path | None, option("Folder for the figures as PNG, PDF and CSV.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on a controller as one HTML file, with its numbers as JSON.

    Example: `nopg report tank --region 'level > 1.5' --most 0.01 --steps 50`
    """
    path = out or run.with_name(f"{run.stem}-report.html")
    for file in (path, path.with_suffix(".json")):
        check_writable(file, overwrite=overwrite)
    note(f"reading {run}")
    from nopg.report import policy_report, save_pictures
    from nopg.training import load

    result = load(run)
    found = policy_report(result, regions=region or (), steps=steps, most=most, title=run.stem)
    written = [str(file) for file in found.save(path, overwrite=overwrite)]
    if figures is not None:
        save_pictures(found.pictures, figures)
        written.append(str(figures))
    shown = [found.facts["sentence"]]
    for name, risk in found.facts["risks"].items():
        limit = "" if most is None else f"; the limit is {risk['finding']}"
        shown.append(f"{name}: {risk['words']}{limit}")
    told = f"written: {' and '.join(written)}"
    answer({"written": written, **found.facts}, "\n".join(shown), as_json=as_json, then=told)


def export(
    run: Run,
    out: Annotated[Path, argument("OUT", "The file: .onnx, .c or .fmu.")],
    *,
    guard: Annotated[Path | None, option("TOML file with the rules of the guard.", metavar="FILE")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Export a controller as C, FMU or ONNX, by the ending of OUT.

    C and FMU include the guard. ONNX does not; it is checked in onnxruntime first.

    Example: `nopg export tank tank.c --guard guard.toml`
    """
    from nopg.deploy import load, to_c, to_fmu, to_onnx

    kind, found = out.suffix.lower(), dict[str, float]()
    if kind not in {".onnx", ".c", ".fmu"}:
        raise ArgumentError(f"{str(out)!r} does not end in .onnx, .c or .fmu, which says what is written")
    if kind == ".onnx":
        if guard is not None:
            raise ArgumentError("ONNX has no guard; leave --guard out")
        found["difference"] = to_onnx(load(run), out, overwrite=overwrite)
    else:
        (to_c if kind == ".c" else to_fmu)(_guarded(run, guard), out, overwrite=overwrite)
    words = {name: f"at most {one:.1e} from numpy, in onnxruntime" for name, one in found.items()}
    answer({"controller": str(out), **found}, {"controller": str(out), **words}, as_json=as_json)


def _guarded(run: Path, file: Path | None) -> GuardedController:
    """Return a saved controller with the rules of a TOML file, by the names of `GuardRules`."""
    from nopg.deploy import GuardedController, GuardRules, load

    given = {} if file is None else read_toml(file)
    check_keys(given, {one.name for one in fields(GuardRules)}, str(file))
    try:
        return GuardedController(load(run), rules=GuardRules(**given))
    except ArgumentError as error:
        raise ArgumentError(str(error) if file is None else f"{file}: {error}") from None


def monitor(
    run: Run,
    log: LogOptions,
    *,
    shadow: Annotated[
        bool | None, option("Whether another controller acts.", "--shadow/--acting", default="by the actions")
    ] = None,
    false_alarms: Annotated[
        float, option("Probability of a false alarm within the horizon.", default=True)
    ] = 0.05,
    horizon: Annotated[int, option("Steps.", default=True, min=1)] = 10_000,
    html: Annotated[Path | None, option("Write a page on the run.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compare a run with its prediction: has the plant changed, what does it return?

    The exit code is 0 for the verdict ok, 4 check, 5 retrain, 6 revert.

    Example: `nopg monitor tank new.csv --html tank-run.html`
    """
    from nopg.evaluation._other_log import with_columns
    from nopg.monitoring import Monitor, write_page
    from nopg.training import load

    settings = log.settings()
    check_writable(html, overwrite=overwrite)
    result = load(run)
    rows = _log.read_like(run, result, settings)
    watching = Monitor(result, false_alarms=false_alarms, horizon=horizon, shadow=shadow)
    status = watching.watch(with_columns(result.policy.schema, rows, " ".join(settings["data"])))
    if html is not None:
        note(f"written: {write_page(watching, html, title=run.stem, overwrite=overwrite)}")
    answer(asdict(status), _status(status), as_json=as_json)
    raise typer.Exit(EXIT_CODES[status.verdict])


def _evaluator(run: Path, result: TrainingResult, settings: Mapping[str, Any]) -> OfflineEvaluator:
    """Return what judges controllers: the model of the training, or one of another log."""
    from nopg.evaluation import OfflineEvaluator, match_log

    if names := settings.get("data"):
        rows = _log.read_like(run, result, settings)
        return OfflineEvaluator(match_log(result, rows, name=" ".join(names)), result.discount)
    try:
        return result.evaluator
    except DataError:
        raise ArgumentError(f"{run} was saved without its data; name a log of its plant after it") from None


def _policy(text: str, schema: Schema) -> Any:
    """Return the controller that a text names: a function of a file, or that of another saved controller."""
    from nopg.evaluation._other_log import check_columns
    from nopg.training import load

    file, _, name = text.rpartition(":")
    if text.endswith(".py"):
        raise ArgumentError(f"{text} is a file; name its function too, e.g. --with {text}:controller")
    if file.endswith(".py"):
        found = runpy.run_path(file)  # what fails in it shows its own traceback
        if callable(found.get(name)):
            return found[name]
        known = [key for key, one in found.items() if callable(one) and not key.startswith("_")]
        raise ArgumentError(f"{file} has no function {name!r}; it has {', '.join(known) or 'none'}")
    policy = load(text).policy
    check_columns(policy.schema, schema, text)
    return policy


def _status(status: Status) -> dict[str, str]:
    from nopg.inspect._wording import share_of

    rows = {"verdict": f"{status.verdict} after {status.step} steps", "reasons": ";\n".join(status.reasons)}
    rows["evidence"] = f"{share_of(min(status.evidence / status.threshold, 1.0))} of an alarm"
    if status.return_check is not None:
        rows["return"] = (
            "{measured:.5g}, predicted {predicted:.5g} [{interval[0]:.5g}, {interval[1]:.5g}] from the same "
            "states over {stretches} stretches".format(**status.return_check)
        )
    if status.operating_region is not None:
        rows["outside the log"] = f"{share_of(status.operating_region['outside'])} of the last rows"
    if (shadow := status.shadow) is not None:
        apart = ", ".join(f"{name} {value:.4g}" for name, value in shadow["difference"].items())
        rows["in shadow"] = f"actions differ by {apart} on average"
        if shadow["predicted"] is not None:
            text = "return {predicted:.5g}; measured under the acting controller {measured:.5g}"
            rows["predicted"] = text.format(**shadow)
    return rows
