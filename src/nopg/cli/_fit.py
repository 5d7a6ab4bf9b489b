"""`nopg fit`: from logged data to a saved controller."""

from __future__ import annotations

import shutil
import time as clock
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from nopg import CheckpointConfig, TrainingConfig
from nopg.cli import _data as d
from nopg.cli._screen import TOLD, figures_that_matter, guarded, predicted, print_json, verdict
from nopg.data import Transitions
from nopg.errors import ArgumentError, TrainingInterrupted
from nopg.training import Callback, CSVLogger, TrainingResult, optimize

__all__ = ["fit"]

_TRAINING = "Training"
# Between two checkpoints: what a crash may cost.
_MINUTES = 1.0


@guarded
def fit(
    data: d.File,
    *,
    discount: Annotated[
        float,
        typer.Option(
            "--discount", "-g", help="γ: how much the future counts, e.g. 0.97.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Where the controller goes: a folder, or a file ending in .zip."),
    ],
    state: d.State = None,
    action: d.Action = None,
    reward: d.Reward = None,
    cost: d.Cost = None,
    next_state: d.NextState = None,
    terminated: d.Terminated = None,
    truncated: d.Truncated = None,
    episode: d.Episode = None,
    time: d.Time = None,
    angle: d.Angle = None,
    unit: d.Unit = None,
    bound: d.Bound = None,
    separator: d.Separator = ",",
    decimal: d.Decimal = ".",
    drop_invalid: d.Drop = False,
    config: d.Config = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            help="A state in which the controller will start, e.g. `3.14,0`; repeat it for each.",
            show_default="the first of every episode, or all states",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    policy: Annotated[
        Literal["deterministic", "gaussian"], typer.Option(help="Policy type.", rich_help_panel=_TRAINING)
    ] = "deterministic",
    model: Annotated[
        Literal["local", "paper"],
        typer.Option(
            help="Model of the plant: local polynomials, or the Nadaraya-Watson model of the paper.",
            rich_help_panel=_TRAINING,
        ),
    ] = "local",
    begin: Annotated[
        Literal["auto", "given"],
        typer.Option(
            help="Initial weights of the policy: the best of several starts on the local model, or random.",
            rich_help_panel=_TRAINING,
        ),
    ] = "auto",
    updates: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most updates of the policy.",
            show_default="60, with the paper's model 1500",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", rich_help_panel=_TRAINING)] = 0,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Write every update to this CSV file.", show_default=False, rich_help_panel=_TRAINING
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a training that was stopped.", rich_help_panel=_TRAINING),
    ] = False,
    without_data: Annotated[
        bool,
        typer.Option(
            "--without-data", help="Leave the data out of what is saved; then nothing can be plotted."
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Train a controller from logged data, and save it with all that is known about it.

    Only the discount has to be chosen. Ctrl-C stops at the end of an update; the same command with `--resume`
    goes on. Example: `nopg fit tank.csv --state level --action valve --cost cost -g 0.95 -o tank`
    """
    del config
    if out.exists() and not overwrite:
        raise ArgumentError(f"{out} exists already; give another name, or --overwrite")
    began = clock.perf_counter()
    transitions = d.read_data(
        data,
        state=state,
        action=action,
        reward=reward,
        cost=cost,
        next_state=next_state,
        terminated=terminated,
        truncated=truncated,
        episode=episode,
        time=time,
        angle=angle,
        unit=unit,
        bound=bound,
        separator=separator,
        decimal=decimal,
        drop_invalid=drop_invalid,
    )
    if start:
        transitions = transitions.starting_at([_start(text, transitions) for text in start])
    TOLD.print(str(transitions), markup=False, style="dim", soft_wrap=True)
    unfinished = out.with_name(f"{out.name}.unfinished")
    if not resume and unfinished.exists():
        raise ArgumentError(f"a training was stopped at {unfinished}; go on with --resume, or delete it")
    callbacks: list[Callback] = [] if log is None else [CSVLogger(log)]
    try:
        result = optimize(
            transitions,
            discount,
            policy=policy,
            model=model,
            config=TrainingConfig(updates=updates, seed=seed, start=begin, callbacks=callbacks),
            checkpoint=CheckpointConfig(unfinished, minutes=_MINUTES),
        )
    except TrainingInterrupted:
        raise KeyboardInterrupt("at the end of an update; the same command with --resume goes on") from None
    result.save(out, data=not without_data, overwrite=overwrite)
    shutil.rmtree(unfinished, ignore_errors=True)
    seconds = clock.perf_counter() - began
    if as_json:
        print_json({"run": str(out), "seconds": seconds, **_values(result)})
        return
    _show(result, out, seconds)


def _start(text: str, data: Transitions) -> list[float]:
    names = data.schema.states
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(names):
        raise ArgumentError(
            f"the start {text!r} is not {len(names)} numbers ({', '.join(names)}); write e.g. 0,0"
        )
    return numbers


def _values(result: TrainingResult) -> dict[str, object]:
    fits = result.column_fits if result.problem.multistep else ()
    return {
        **result.summary(),
        "model": result.problem.description,
        "columns": [asdict(fit) for fit in fits],
    }


def _show(result: TrainingResult, out: Path, seconds: float) -> None:
    outside = int(result.start_support.outside.sum())
    starts = len(result.start_support.states)
    rows = {"predicted return": predicted(result), "verdict": verdict(result)}
    rows["leaves the data"] = f"{result.unknown_mass:.2%} of the time, discounted"
    rows["starts in the data"] = "all" if not outside else f"{starts - outside} of {starts}"
    if result.problem.multistep:
        rows["held-out R²"] = ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in result.column_fits)
    rows["model"] = result.problem.description
    rows["training"] = f"{len(result.history)} updates in {seconds:.0f} s"
    rows["saved"] = str(out)
    figures_that_matter(rows)
    TOLD.print(
        f"next: nopg plot {out}, nopg report {out}, nopg evaluate {out} --env ID, "
        f"nopg export {out} --onnx FILE",
        style="dim",
        soft_wrap=True,
    )
