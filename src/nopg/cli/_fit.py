"""`nopg fit`: from logged data to a saved controller."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import typer

from nopg._derived import DerivedColumns
from nopg.cli._data import DataOptions
from nopg.cli._log import roles_of
from nopg.cli._options import AsJson, Overwrite
from nopg.cli._screen import (
    ERR,
    in_interval,
    predicted,
    print_json,
    print_rows,
    show,
    verdict,
)
from nopg.cli._summarize import saved_summary
from nopg.errors import ArgumentError, TrainingInterrupted

if TYPE_CHECKING:
    from nopg.data import Transitions
    from nopg.evaluation import Assessment, Gain
    from nopg.large_logs import LogSummary
    from nopg.training import TrainingResult
    from nopg.training._optimize import NewPolicy


def _option(text: str, *names: str, default: str | bool = True, least: int | None = None) -> Any:
    return typer.Option(*names, help=text, show_default=default, min=least, rich_help_panel="Training")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What `optimize` takes besides data and discount, as options of a command."""

    start: Annotated[
        list[str] | None,
        _option(
            "Initial state of the controller, exact, e.g. `3.14,0`; repeat for each.",
            default="the starts in the log, a sample",
        ),
    ] = None
    policy: Annotated[
        Literal["auto", "deterministic", "gaussian", "p", "pi", "pid", "linear", "cascade"],
        _option("Policy type: a network or LQR by what the data tell, a network, or a structure."),
    ] = "auto"
    follows: Annotated[
        list[str] | None,
        _option(
            "Set point of a controlled column, e.g. `level=setpoint` or `level=1.5`; one for each action.",
            default="the only exogenous column",
        ),
    ] = None
    schedule: Annotated[
        list[str] | None, _option("Column that the gains of a structure depend on.", default=False)
    ] = None
    inner: Annotated[str | None, _option("Column of the inner loop of a cascade.", default=False)] = None
    formula: Annotated[
        list[str] | None,
        _option("Your own controller, e.g. `valve=bias + kp * (setpoint - level)`.", default=False),
    ] = None
    gain: Annotated[
        list[str] | None, _option("First value of a gain of `--formula`, e.g. `kp=0.5`.", default=False)
    ] = None
    rate: Annotated[
        list[str] | None,
        _option("Largest change of an action from row to row, e.g. `valve=0.05`.", default=False),
    ] = None
    model: Annotated[
        Literal["local", "paper"],
        _option("Model of the plant: local polynomials, or the Nadaraya-Watson model of the paper."),
    ] = "local"
    begin: Annotated[
        Literal["auto", "given"],
        _option("Initial weights of the policy: the best of several starts (local model), or random."),
    ] = "auto"
    updates: Annotated[
        int | None,
        _option("Maximum number of policy updates.", default="100, with the paper's model 1500", least=1),
    ] = None
    seed: Annotated[int, _option("Random seed.")] = 0
    log: Annotated[Path | None, _option("Write every update to this CSV file.", default=False)] = None
    resume: Annotated[bool, _option("Resume a training that was stopped.", "--resume")] = False

    def new_policy(self) -> NewPolicy:
        """Return what is to be trained."""
        from nopg.policies import ControlStructure, Formulas

        if self.formula:
            laws = dict(
                _pair(text, "formula", "valve=bias + kp * (setpoint - level)") for text in self.formula
            )
            gains = dict(_pair(text, "gain", "kp=0.5") for text in self.gain or [])
            try:
                return Formulas(laws, {name: float(value) for name, value in gains.items()})
            except ValueError as error:
                raise ArgumentError(f"a gain is no number ({error}); write --gain kp=0.5") from None
        if self.policy in {"auto", "deterministic", "gaussian"}:
            if self.follows or self.schedule or self.inner or self.gain:
                raise ArgumentError(
                    f"--policy {self.policy} is a network or linear feedback; --follows, --schedule and "
                    "--inner need --policy pi or another structure, --gain needs --formula"
                )
            return cast("NewPolicy", self.policy)
        pairs = [_pair(text, "set point", "level=setpoint") for text in self.follows or []]
        follows = {name: _number_or_text(value) for name, value in pairs}
        return ControlStructure(
            cast(Any, self.policy), follows, schedule=tuple(self.schedule or ()), inner=self.inner
        )

    @property
    def _rates(self) -> dict[str, float]:
        pairs = [_pair(text, "rate", "valve=0.05") for text in self.rate or []]
        try:
            return {name: float(value) for name, value in pairs}
        except ValueError as error:
            raise ArgumentError(f"a rate is no number ({error}); write --rate valve=0.05") from None

    def train(self, data: Transitions | LogSummary, discount: float, checkpoint: Path) -> TrainingResult:
        """Return what `optimize` finds; it keeps a checkpoint that is removed at the end."""
        from nopg.training import CSVLogger, TrainingConfig, optimize

        if not self.resume and checkpoint.exists():
            raise ArgumentError(f"a training was stopped at {checkpoint}; use --resume, or delete it")
        try:
            return optimize(
                data,
                discount,
                policy=self.new_policy(),
                model=self.model,
                rates=self._rates,
                config=TrainingConfig(
                    updates=self.updates,
                    seed=self.seed,
                    start=self.begin,
                    callbacks=[] if self.log is None else [CSVLogger(self.log)],
                ),
                checkpoint=checkpoint,
            )
        except TrainingInterrupted:
            raise KeyboardInterrupt("after an update; the same command with --resume continues") from None
        except KeyboardInterrupt:
            if checkpoint.exists():
                raise KeyboardInterrupt(
                    "within an update; the same command with --resume continues after the last checkpoint"
                ) from None
            raise KeyboardInterrupt("before the first update; the same command starts again") from None


def fit(
    data: DataOptions,
    *,
    discount: Annotated[
        float, typer.Option("--discount", "-g", help="Discount factor γ, e.g. 0.97.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file in which the controller is saved.")],
    training: TrainingOptions,
    without_data: Annotated[
        bool,
        typer.Option(
            "--without-data",
            help="Do not save the data; `plot`, `report` and `compare` without `--log` will not work.",
        ),
    ] = False,
    plant: Annotated[
        str | None,
        typer.Option(
            help="Plant of a summary of several; all of them as one by default.", show_default=False
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a controller from logged data, or from a folder of `nopg summarize`, and save it.

    Only the discount must be chosen. Ctrl-C stops after an update; `--resume` continues.

    Example: `nopg fit tank.csv --state level --action valve --cost cost -g 0.95 -o tank`
    """
    from nopg.training._saved import save_result

    if not out.name:
        raise ArgumentError(f"--out is {str(out)!r}, which names no file; give a name, such as tank")
    if out.exists() and not overwrite:
        raise ArgumentError(f"{out} exists already; give another name, or --overwrite")
    began = time.perf_counter()
    summary = saved_summary(data.data, plant)
    rows = data.read() if summary is None else summary.sample
    if training.start:
        rows = rows.starting_at([_start(text, rows) for text in training.start])
    source = rows if summary is None else replace(summary, sample=rows)
    show(str(source), ERR, style="dim")
    checkpoint = out.with_name(f"{out.name}.unfinished")
    result = training.train(source, discount, checkpoint)
    kept = not without_data and summary is None
    save_result(result, out, with_data=kept, overwrite=overwrite, log=roles_of(data, result.policy.schema))
    checkpoint.unlink(missing_ok=True)
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"run": str(out), "seconds": seconds, **_values(result)})
        return
    _print(result, out, seconds)


def _pair(text: str, what: str, example: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value:
        raise ArgumentError(f"{text!r} is no {what}; write e.g. {example!r}")
    return name, value


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _start(text: str, data: Transitions) -> list[float]:
    names = data.schema.measured
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(names):
        raise ArgumentError(
            f"the start {text!r} is not {len(names)} numbers ({', '.join(names)}); write e.g. 0,0"
        )
    return list(DerivedColumns.of(data.schema).first(np.array(numbers)))


def _values(result: TrainingResult) -> dict[str, object]:
    values = {**result.summary(), "model": result.problem.description}
    logged, gain = _beside_logged(result)
    values["columns"] = [asdict(fit) for fit in result.column_fits]
    return values | {"logged": logged.to_dict(), "gain": gain.to_dict()}


def _beside_logged(result: TrainingResult) -> tuple[Assessment, Gain]:
    """Return what the logged behaviour earns, and what the controller gains over it."""
    logged = result.evaluator.logged()
    return logged, result.evaluation.gain_over(logged)


def _print(result: TrainingResult, out: Path, seconds: float) -> None:
    from nopg.inspect._wording import chance
    from nopg.policies import FormulaPolicy

    outside = int(result.start_support.outside.sum())
    starts = len(result.start_support.states)
    rows = {"predicted return": predicted(result, result.discount)}
    logged, gain = _beside_logged(result)
    rows["logged behaviour"] = in_interval(logged.expected_return, logged.interval)
    rows["gain"] = f"{gain.mean:+.4g} in [{gain.interval[0]:+.4g}, {gain.interval[1]:+.4g}], "
    rows["gain"] += f"P(better) {chance(gain.probability_better)}"
    if isinstance(law := result.policy.policy, FormulaPolicy):
        rows |= {f"law of {name}": text for name, text in law.law.to_dict()["formulas"].items()}
        rows["gains"] = ", ".join(f"{name} = {value:.4g}" for name, value in law.gains.items())
    rows["verdict"] = verdict(result.verdict, result.reasons)
    rows["notes"] = "\n".join(result.notes)
    rows["leaves the data"] = f"{100 * result.unknown_mass:.2f} % of the time, discounted"
    rows["starts in the data"] = "all" if not outside else f"{starts - outside} of {starts}"
    fits = result.evaluator.model.learned_fits
    rows["held-out R²"] = ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in fits)
    rows["model"] = result.problem.description
    rows["training"] = f"{len(result.history)} updates in {seconds:.0f} s; start: {result.start}"
    rows["saved"] = str(out)
    print_rows(rows)
    following = (
        f"plot {out}, nopg report {out}, nopg compare {out} --with FILE.py:FUNCTION, "
        f"nopg evaluate {out} --log FILE, nopg export {out} --to c FILE.c"
    )
    show(f"next: nopg {following}", ERR, style="dim")
