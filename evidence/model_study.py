"""The transition models side by side: `python -m evidence.model_study` writes docs/models.md.

Every trial is one record of results/models.json, under its row, model and seed; what is stored is not run
again unless --fresh asks for it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch

from evidence.figure import Figure
from evidence.model_tasks import (
    MODELS,
    TRIALS,
    ControlTask,
    Model,
    Probe,
    Promise,
    Record,
    control_tasks,
    failures,
    probes,
)
from evidence.study import write_records

__all__ = ["models"]

_ROOT = Path(__file__).parent.parent
_RECORDS, _PAGE = _ROOT / "results" / "models.json", _ROOT / "docs" / "models.md"


class Key(NamedTuple):
    """What a record is stored under."""

    row: str
    model: Model
    seed: int


Store = dict[Key, Record]


def models() -> Iterator[Figure]:
    """Yield what was promised of the local-linear model, from the records; what is missing is run first.

    Human demonstrations are no part of the repository: their rows are as stored, and only where there are
    none are the synthetic recordings run in their place.
    """
    store = _load()
    rows = [row for row in _rows(None) if not (_has_human(store) and _made_by(row) == "synthetic")]
    if keys := _missing(store, rows):
        _run(keys)
        store = _load()
        _PAGE.write_text(_markdown(store))

    for section, verdicts in (
        ("Transition models: policies trained ten times per row", _control(store)),
        ("Transition models: what needs no training", _without_training(store)),
    ):
        for verdict in verdicts:
            if verdict.required == str(Promise()):
                continue
            told = _typeset(f"{verdict.ours}. Nadaraya-Watson: {verdict.papers}".replace("<br>", "; "))
            required = _typeset(verdict.required)
            yield Figure(
                section, verdict.name, required, told, bool(verdict.kept), "python -m evidence.model_study"
            )


# Running.


def _rows(demonstrations: Path | None) -> list[ControlTask | Probe]:
    """Return the rows that can be run: on human demonstrations if there are some, else on synthetic ones."""
    other = "human" if demonstrations is None else "synthetic"
    rows: list[ControlTask | Probe] = [*control_tasks(demonstrations), *probes(demonstrations)]
    return [row for row in rows if _made_by(row) != other]


def _made_by(row: ControlTask | Probe) -> str | None:
    """Return whose demonstrations a row rests on, if on any."""
    return next((source for source in ("human", "synthetic") if source in row.name.split()), None)


def _missing(store: Store, rows: Iterable[ControlTask | Probe], trials: int = TRIALS) -> list[Key]:
    keys = [
        Key(row.name, model, seed)
        for row in rows
        for seed in range(min(trials, row.trials))
        for model in row.models
    ]
    return [key for key in keys if key not in store]


def _run(keys: Sequence[Key], *, workers: int = 1, demonstrations: Path | None = None) -> int:
    """Measure and store; return how many trials ended in an error, which is shown and not stored."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    errors = 0
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        trials = {pool.submit(_measure, key, demonstrations): key for key in keys}
        for done, trial in enumerate(as_completed(trials), 1):
            key, error = trials[trial], trial.exception()
            if error is None:
                _save(key, trial.result())
            errors += error is not None
            told = f"{type(error).__name__}: {error}" if error else _brief(trial.result())
            print(f"{done}/{len(trials)} {key.row}, {key.model}, {key.seed}: {told}", flush=True)
    return errors


def _measure(key: Key, demonstrations: Path | None) -> Record:
    (row,) = (row for row in _rows(demonstrations) if row.name == key.row)
    return row.measure(key.model, key.seed)


def _load() -> Store:
    stored = json.loads(_RECORDS.read_text()) if _RECORDS.exists() else []
    return {Key(record.pop("row"), record.pop("model"), record.pop("seed")): record for record in stored}


def _save(key: Key, record: Record) -> None:
    """Put a record into the file, which other runs may be filling too."""
    _RECORDS.parent.mkdir(exist_ok=True)
    folder = os.open(_RECORDS.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        store = _load() | {key: record}
        write_records(_RECORDS, [{**each._asdict(), **store[each]} for each in sorted(store)])
    finally:
        os.close(folder)


# Judging.


class Verdict(NamedTuple):
    """A promise, what both models reach, and whether the local-linear one keeps it; None if that is open."""

    name: str
    required: str
    ours: str
    papers: str
    kept: bool | None


def _control(store: Store) -> list[Verdict]:
    """Judge the control tasks; those on synthetic demonstrations appear only if they were run."""
    verdicts = []
    for task in control_tasks():
        ours, papers = _both(store, task.name)
        if ours or papers or _made_by(task) != "synthetic":
            verdicts.append(
                Verdict(
                    task.name,
                    str(task.promise),
                    _returns(ours, task.promise),
                    _returns(papers, task.promise),
                    task.promise.kept(ours),
                )
            )
    return verdicts


def _without_training(store: Store) -> list[Verdict]:
    """Judge prediction, gradient, value under noise and cost."""
    pairs = _predictions(store).values()
    wins = [sum(a[after] < b[after] for a, b in pairs) for after in ("after_1", "after_10")]
    prediction = Verdict(
        "error after 1 and after 10 steps",
        "lower on 5 of 6 datasets",
        f"lower on {wins[0]} and {wins[1]} of {len(pairs)}",
        f"lower on {len(pairs) - wins[0]} and {len(pairs) - wins[1]}",
        min(wins) >= 5 if len(pairs) == 6 else None,
    )

    ours, papers = _errors(store, "LQR gradient")
    gradient = Verdict(
        "‖∇Ĵ − ∇J‖/‖∇J‖ on the LQR",
        "median ≤ half of Nadaraya-Watson's",
        _shares(ours),
        _shares(papers),
        statistics.median(ours) <= statistics.median(papers) / 2 if _complete(ours, papers) else None,
    )

    ours, papers = _errors(store, "stochastic pendulum")
    noise = Verdict(
        "abs(Ĵ − J)/abs(J) on the stochastic pendulum",
        "≤ 5 % on each dataset",
        _shares(ours),
        _shares(papers),
        max(ours) <= 0.05 if _complete(ours) else None,
    )

    cost = Verdict("CPU seconds per update", "≤ 2 × Nadaraya-Watson's", "not run", "not run", None)
    for record in _both(store, "cost of an update")[0]:
        cost = cost._replace(
            ours=f"{record['local_linear']:.3f}, {record['ratio']:.2f} × ({record['nodes']} nodes)",
            papers=f"{record['nadaraya_watson']:.3f} (K = {record['candidates']} for both)",
            kept=record["ratio"] <= 2,
        )
    return [prediction, gradient, noise, cost]


def _predictions(store: Store) -> dict[str, tuple[Record, Record]]:
    """Return the errors of both models by dataset, of the mountain car's two sources only one."""
    other = "synthetic" if _has_human(store) else "human"
    pairs = {}
    for row in probes():
        ours, papers = _both(store, row.name)
        if row.name.startswith("prediction ") and _made_by(row) != other and ours and papers:
            pairs[row.name.removeprefix("prediction ")] = (ours[0], papers[0])
    return pairs


def _has_human(store: Store) -> bool:
    return any("human" in key.row.split() for key in store)


def _both(store: Store, row: str) -> tuple[list[Record], list[Record]]:
    """Return the trials of a row by the local-linear and by the paper's model."""
    ours, papers = ([store[key] for key in sorted(store) if key[:2] == (row, model)] for model in MODELS)
    return ours, papers


def _errors(store: Store, row: str) -> tuple[list[float], list[float]]:
    """Return the relative errors of a row, in the same order."""
    ours, papers = ([record["error"] for record in records] for records in _both(store, row))
    return ours, papers


def _complete(*trials: Sequence[float]) -> bool:
    return all(len(values) == TRIALS for values in trials)


# Writing.


def _returns(records: Sequence[Record], promise: Promise) -> str:
    """Return median, worst and all returns."""
    if not records:
        return "not run"
    returns = [record["return"] for record in records]
    lines = [f"median {statistics.median(returns):.0f}, worst {min(returns):.0f}"]
    if promise.announced:
        failed, said = failures(records)
        alarms = sum(record["start_unknown"] > 0.5 for record in records) - said
        lines.append(f"{said} of {failed} failures announced, {alarms} false alarms")
    return "<br>".join([*lines, ", ".join(f"{value:.0f}" for value in returns)])


def _shares(errors: Sequence[float]) -> str:
    if not errors:
        return "not run"
    every = ", ".join(f"{100 * error:.1f}" for error in errors)
    return f"median {statistics.median(errors):.1%}, worst {max(errors):.1%}<br>{every}"


def _foresight(store: Store) -> Iterator[tuple[str, ...]]:
    """Yield by row and model the medians of what was predicted, what came, and what it took."""
    for verdict in _control(store):
        for model, records in zip(MODELS, _both(store, verdict.name), strict=True):
            if records:
                columns = ("predicted", "discounted", "start_unknown", "unknown_mass", "updates", "seconds")
                medians = [statistics.median(record[column] for record in records) for column in columns]
                yield (verdict.name, model, *(f"{x:.0f}" if abs(x) >= 10 else f"{x:.2g}" for x in medians))


def _table(*rows: Sequence[str]) -> list[str]:
    """Return the lines of a table, the first row being its head."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "|---" * len(rows[0]) + "|", *body, ""]


def _verdicts(what: str, verdicts: Iterable[Verdict]) -> list[str]:
    words = {True: "kept", False: "**missed**", None: "open"}
    rows = [(*verdict[:-1], words[verdict.kept]) for verdict in verdicts]
    return _table((what, "must be", "local-linear", "Nadaraya-Watson", ""), *rows)


def _markdown(store: Store) -> str:
    errors = [
        (name, *(f"{record[after]:.2g}" for after in ("after_1", "after_10") for record in pair))
        for name, pair in _predictions(store).items()
    ]
    lines = [
        "# The transition models side by side",
        "",
        "Made by `python -m evidence.model_study` from `results/models.json`; do not edit. Kept or missed is "
        "said of the local-linear model, once all trials of a row are in.",
        "",
        "## Control",
        "",
        "Ten trials per row and model, told the discount and the model and nothing else: return on the true "
        "dynamics. Grids are fixed and the seed is that of the training; elsewhere every trial has its own "
        "data. Pendulum: 500 steps from hanging, γ = .97 unless said; the random agent starts upright. A "
        "failure is a return below −500, announced if more than half of the start was unknown before "
        "training. Mountain car: 1, 2 or 5 demonstrations, γ = .99, mean over 20 starts of at most 500 steps "
        "at −1. Cart-pole: 1 500 random steps within ±5 V, γ = .99, mean of 10 starts, 10⁴ steps at most.",
        "",
        *_verdicts("task", _control(store)),
        "## Said and done",
        "",
        "Medians over the trials; both returns discounted.",
        "",
        *_table(
            ("task", "model", "predicted Ĵ", "came", "start unknown", "unknown mass", "updates", "CPU s"),
            *_foresight(store),
        ),
        "## Prediction",
        "",
        "Median error over 200 states of the data under random actions, in standard deviations of a logged "
        "step; the truth is without noise.",
        "",
        *_table(
            ("data", "1 step: local-linear", "Nadaraya-Watson", "10 steps: local-linear", "Nadaraya-Watson"),
            *errors,
        ),
        "## Without training",
        "",
        "LQR: ten datasets of 3 000 samples, uniform within ±1.5 in states and ±5 in actions, gains halfway "
        "to the best. Stochastic pendulum: ten datasets of 10⁴ uniform samples, noise of .5 N m on the "
        "torque, one policy that swings up, J by 2 000 rollouts. Cost: 10⁴ uniform pendulum samples, equal "
        "numbers of candidates per row, updates in turn on one thread, mean of 20.",
        "",
        *_verdicts("quantity", _without_training(store)),
    ]
    return _typeset("\n".join(lines))


def _brief(record: Record) -> str:
    return _typeset(", ".join(f"{name} {value:.4g}" for name, value in record.items()))


def _typeset(text: str) -> str:
    """Return the text with real minus signs before numbers."""
    return re.sub(r"(?<=[ >])-(?=\d)", "−", text)


def main() -> int:
    """Run what is missing, then write the page; the exit code says whether a trial ended in an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PREFIX", help="rows whose names begin so")
    parser.add_argument("--model", choices=MODELS, help="one of the models")
    parser.add_argument("--trials", type=int, default=TRIALS, help="how many seeds, from 0")
    parser.add_argument("--workers", type=int, default=1, help="processes, of one thread each")
    parser.add_argument(
        "--demonstrations", type=Path, help="human demonstrations of the mountain car, as CSV"
    )
    parser.add_argument("--fresh", action="store_true", help="run also what is stored")
    parser.add_argument("--table-only", action="store_true", help="write the page from the stored records")
    options = parser.parse_args()
    if options.demonstrations is not None and not options.demonstrations.is_file():
        parser.error(f"there is no file {options.demonstrations}")

    errors = 0
    if not options.table_only:
        rows = [row for row in _rows(options.demonstrations) if row.name.startswith(options.only)]
        keys = _missing({} if options.fresh else _load(), rows, options.trials)
        keys = [key for key in keys if options.model in {None, key.model}]
        errors = _run(keys, workers=options.workers, demonstrations=options.demonstrations)
    _PAGE.write_text(_markdown(_load()))
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(main())
