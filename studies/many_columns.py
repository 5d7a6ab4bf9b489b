"""Plants with six columns and more: errors over several steps of four models, and what training says.

    python -m studies.many_columns chain --logs 0-2
    python -m studies.many_columns chain --logs 0-2 --train

Each model is fitted to whole episodes of a log and follows the actions of fresh episodes of the same
behaviour. The error of a column after k steps is relative to the standard deviation of its change over k
steps in these episodes. Ends of a task are left out of the fits. With `--train`, `nopg.optimize` with
nothing set and two baselines, on the same logs of 2 000 rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.baselines._neural import Ensemble, NeuralConfig
from nopg.errors import NopgError
from nopg.models import LocalModel
from nopg.models._rollout import rollout
from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import random_generator
from studies.engineers.methods import Trained, train
from studies.engineers.task import Task
from studies.many_column_plants import DEVELOPMENT, TASKS
from studies.markdown import table
from studies.printing import note, say
from studies.records import FOLDER, Record, append, code_version, last_of_each, read
from studies.seeds import seeds_of

__all__ = ["STUDY", "main", "page"]

STUDY = "many-columns"
_SIZES, _TRAINED_ROWS = (2_000, 5_000), 2_000
_LAGS = (1, 5, 20)
# Fresh episodes, and rows between the starts of two predicted paths of one.
_EPISODES, _APART = 40, 5
# Fewer paths that reach a lag are no measurement of it.
_FEWEST = 10
_TRAINED = ("behaviour", "cloning", "lqr", "nopg")

Follow = Callable[[Array, Array], Array]
"""States (T + 1, m, d_s) from initial states (m, d_s) under actions (T, m, d_a)."""
Fit = Callable[[Transitions, int], tuple[Follow, Callable[[], dict[str, Any]]]]
"""Makes a model of a log with a seed; the second is called after the paths for what else is known."""


def predicted(task: Task, rows: int, seed: int, models: Mapping[str, Fit] | None = None) -> list[Record]:
    """Return the errors of models on one log, by default of the four that are compared."""
    torch.set_num_threads(1)
    data = without_ends(task.log(rows, seed))
    truth, actions, alive = fresh_paths(task, seed)
    records = []
    for method, fit in (models or _MODELS).items():
        began = time.process_time()
        follow, facts = fit(data, seed)
        paths = follow(truth[0], actions)
        seconds = time.process_time() - began
        found = {"errors": errors(paths, truth, alive, data), **facts()}
        records.append(_record(task, method, rows, seed, cpu_seconds=round(seconds, 2), results=found))
    return records


def without_ends(data: Transitions) -> Transitions:
    """Return a log whose episodes are cut instead of ending, so that models are of the dynamics alone."""
    return replace(
        data,
        terminated=torch.zeros_like(data.terminated),
        truncated=data.truncated | data.terminated,
    )


def fresh_paths(task: Task, seed: int) -> tuple[Array, Array, Array]:
    """Return true states (T + 1, m, d_s), actions (T, m, d_a), and whether a state (T + 1, m) was reached."""
    plant, rng = task.plant, random_generator(seed, f"fresh episodes of {task.name}")
    law = plant.behaviour(task.behaviour)(_EPISODES, rng)
    runs = plant.run(law, plant.starts(_EPISODES, rng), task.steps, rng)
    longest, last = _LAGS[-1], task.steps - _LAGS[-1]
    reached = np.concatenate([np.ones((1, _EPISODES), bool), runs.alive & ~runs.ended])
    pieces = [
        (runs.measured[t : t + longest + 1], runs.actions[t : t + longest], reached[t : t + longest + 1])
        for t in range(0, last + 1, _APART)
    ]
    states, actions, alive = (np.concatenate(part, axis=1) for part in zip(*pieces, strict=True))
    going = alive[0]
    return states[:, going], actions[:, going], alive[:, going]


def errors(paths: Array, truth: Array, alive: Array, data: Transitions) -> dict[str, dict[str, float]]:
    """Return, by lag, median and mean of the error over columns and paths, and the number of paths.

    Lags that hardly any path reaches before the task ends are left out.
    """
    found = {}
    for lag in _LAGS:
        own = alive[lag].astype(bool)
        if own.sum() < _FEWEST:
            continue
        before, after, guess = (torch.as_tensor(one[own]) for one in (truth[0], truth[lag], paths[lag]))
        change = data.schema.difference(before, after).std(dim=0)
        moves = change > 1e-9
        missed = data.schema.difference(after, guess)[:, moves].abs() / change[moves]
        found[str(lag)] = {
            "median": float(missed.median()),
            "mean": float(missed.mean()),
            "paths": int(own.sum()),
        }
    return found


def _local(data: Transitions, seed: int) -> tuple[Follow, Callable[[], dict[str, Any]]]:
    model, unknown = LocalModel(data, seed=seed), list[Array]()

    def follow(starts: Array, actions: Array) -> Array:
        given = torch.as_tensor(actions)
        path = rollout(model, lambda _, t: given[t], torch.as_tensor(starts), len(actions))
        unknown.append(1.0 / (1.0 + np.exp(-path.log_odds)))
        return np.asarray(path.states, dtype=np.float64)

    def facts() -> dict[str, Any]:
        shapes = [fit.shape for fit in model.fits[: model.num_states]]
        return {
            "unknown": {str(lag): float(unknown[0][lag - 1].mean()) for lag in _LAGS},
            "local_columns": sum(shape.is_local for shape in shapes),
            "inputs": float(np.mean([int(shape.used.sum()) for shape in shapes])),
            "r_squared": float(np.median([fit.r_squared for fit in model.learned_fits])),
        }

    return follow, facts


def _ensemble(
    data: Transitions, seed: int, config: NeuralConfig | None = None
) -> tuple[Follow, Callable[[], dict[str, Any]]]:
    config = config or NeuralConfig()
    model = Ensemble(data, config, generator(seed, "neural model"))

    def follow(starts: Array, actions: Array) -> Array:
        states = torch.as_tensor(starts).float().expand(config.members, *starts.shape)
        path = [states]
        for some in torch.as_tensor(actions).float():
            path.append(model.step(path[-1], some.expand(config.members, *some.shape))[0])
        return torch.stack(path).mean(dim=1).double().numpy()

    return follow, dict


def _linear(data: Transitions, seed: int) -> tuple[Follow, Callable[[], dict[str, Any]]]:
    """Least squares of the steps, within the logged range and a tenth of it."""
    del seed
    schema, states = data.schema, data.states

    def inputs(some: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.ones(len(some), 1).double(), schema.encode(some), actions], dim=1)

    moves = schema.difference(states, data.next_states)
    slopes = torch.linalg.lstsq(inputs(states, data.actions), moves, driver="gelsd").solution
    room = 0.1 * (states.amax(dim=0) - states.amin(dim=0))
    free = torch.tensor([torch.inf if name in schema.angles else 0.0 for name in schema.states])
    low, high = states.amin(dim=0) - room - free, states.amax(dim=0) + room + free

    def follow(starts: Array, actions: Array) -> Array:
        path = [torch.as_tensor(starts)]
        for some in torch.as_tensor(actions):
            path.append((path[-1] + inputs(path[-1], some) @ slopes).clamp(low, high))
        return torch.stack(path).numpy()

    return follow, dict


def _persistence(data: Transitions, seed: int) -> tuple[Follow, Callable[[], dict[str, Any]]]:
    del data, seed
    return lambda starts, actions: np.broadcast_to(starts, (len(actions) + 1, *starts.shape)), dict


_MODELS: Mapping[str, Fit] = {
    "local": _local,
    "ensemble": _ensemble,
    "linear": _linear,
    "no change": _persistence,
}
_LONGER = "longer ensemble"
_COMPARED = ("local", "ensemble", _LONGER)


def _longer(data: Transitions, seed: int) -> tuple[Follow, Callable[[], dict[str, Any]]]:
    return _ensemble(data, seed, NeuralConfig(hidden=128, model_updates=20_000))


def trained(task: Task, method: str, seed: int) -> Record:
    """Return what a method makes of a log, with its true return; refusing the log is an answer."""
    torch.set_num_threads(1)
    data = task.log(_TRAINED_ROWS, seed)
    began = time.process_time()
    try:
        if method == "behaviour":
            found = Trained(task.plant.behaviour(task.behaviour))
        else:
            found = train(method, task, data, seed)
    except NopgError as error:
        return _record(task, method, _TRAINED_ROWS, seed, summary={"refused": str(error)})
    seconds = time.process_time() - began
    returns = task.returns(found.controller, seed)
    return _record(
        task,
        method,
        _TRAINED_ROWS,
        seed,
        cpu_seconds=round(seconds, 2),
        discounted=float(returns.mean()),
        standard_error=float(returns.std(ddof=1)) / len(returns) ** 0.5,
        episodes=len(returns),
        summary=found.summary,
        warnings=found.warnings,
    )


def _record(task: Task, method: str, rows: int, seed: int, **values: Any) -> Record:
    return Record(
        study=STUDY,
        benchmark=task.name,
        role="development" if task in DEVELOPMENT else "report",
        method=method,
        rows=rows,
        seed=seed,
        commit=code_version("src/nopg"),
        **values,
    )


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    heads = (
        "plant",
        "columns",
        "rows",
        "logs",
        "steps",
        *_MODELS,
        "ensemble / local",
        "local lower",
        "unknown",
    )
    lines = [
        "# Six columns and more",
        "",
        "Made by `python -m studies page many-columns` from `results/studies/many-columns.jsonl`; do not",
        "edit. Errors of predicted states under the actions of fresh episodes, relative to the standard",
        "deviation of the change of the column over as many steps in these episodes. Median over columns and",
        "paths, mean over logs. `local` is `nopg.models.LocalModel` and `ensemble` the five networks of the",
        "baseline `neural`, with nothing set; `linear` is least squares. Local lower: logs on which the",
        "local model has a lower error than the ensemble. Unknown: mean unknown share of its paths, those",
        "that go on after the end of a task included.",
        "Development plants are `two-link-arm`, `chain` and `pushed-chain`.",
        "",
        *table(heads, _error_rows(records, "median")),
        "",
        "The mean over columns and paths in place of the median:",
        "",
        *table(heads, _error_rows(records, "mean")),
        "",
        "An ensemble of 128 units and 20 000 updates in place of 64 and 4 000, medians:",
        "",
        *table(
            ("plant", "rows", "log", "steps", *_COMPARED, "longer / local", "CPU s"), _longer_rows(records)
        ),
        "",
        "How the local model was fitted, mean over logs: state columns whose fit is local and not one",
        "polynomial, inputs of a column, median R² of a step on held-out rows, CPU seconds of fit and paths.",
        "",
        *table(
            ("plant", "rows", "local columns", "inputs", "R²", "CPU s", "CPU s of ensemble"),
            _fit_rows(records),
        ),
        "",
        f"Training on {_TRAINED_ROWS} rows with nothing set: true discounted return, log by log, and what",
        "`nopg.optimize` said before. `behaviour` are the random actions of the log.",
        "",
        *table(
            ("plant", "log", *_TRAINED, "predicted by nopg", "interval", "verdict", "start", "CPU s"),
            _trained_rows(records),
        ),
    ]
    return "\n".join(lines) + "\n"


def _groups(records: Sequence[Record], method: str) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = {}
    for name in TASKS:
        for rows in _SIZES:
            mine = [one for one in records if (one.benchmark, one.method, one.rows) == (name, method, rows)]
            if mine:
                found[name, rows] = sorted(mine, key=lambda one: one.seed)
    return found


def _error_rows(records: Sequence[Record], measure: str) -> list[tuple[str, ...]]:
    groups = {method: _groups(records, method) for method in _MODELS}
    rows = []
    for key, local in groups["local"].items():
        name, size = key
        for lag in local[0].results["errors"]:
            by_method = {
                method: np.array([one.results["errors"][lag][measure] for one in groups[method][key]])
                for method in _MODELS
            }
            means = {method: float(values.mean()) for method, values in by_method.items()}
            lower = int((by_method["local"] < by_method["ensemble"]).sum())
            unknown = np.mean([one.results["unknown"][lag] for one in local])
            rows.append(
                (
                    name,
                    str(len(TASKS[name].plant.states)),
                    str(size),
                    str(len(local)),
                    lag,
                    *(f"{mean:.3g}" for mean in means.values()),
                    f"{means['ensemble'] / means['local']:.2f}",
                    f"{lower} of {len(local)}",
                    f"{unknown:.1%}",
                )
            )
    return rows


def _longer_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    found = {(one.benchmark, one.rows, one.seed, one.method): one for one in records}
    rows = []
    for (name, size), longer in _groups(records, _LONGER).items():
        for one in longer:
            all_three = [found.get((name, size, one.seed, method)) for method in _COMPARED]
            for lag in one.results["errors"]:
                medians = [each.results["errors"][lag]["median"] if each else np.nan for each in all_three]
                values = (*(f"{value:.3g}" for value in medians), f"{medians[2] / medians[0]:.2f}")
                rows.append((name, str(size), str(one.seed), lag, *values, f"{one.cpu_seconds:.0f}"))
    return rows


def _fit_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    local, ensemble = _groups(records, "local"), _groups(records, "ensemble")
    rows = []
    for (name, size), mine in local.items():
        facts = [np.mean([one.results[fact] for one in mine]) for fact in ("local_columns", "inputs")]
        r_squared = np.mean([one.results["r_squared"] for one in mine])
        seconds = [np.mean([one.cpu_seconds for one in some]) for some in (mine, ensemble[name, size])]
        numbers = (*(f"{fact:.1f}" for fact in facts), f"{r_squared:.3f}", *(f"{one:.0f}" for one in seconds))
        rows.append((name, str(size), *numbers))
    return rows


def _trained_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    found = {(one.benchmark, one.seed, one.method): one for one in records}
    rows = []
    for (name, _), logged in _groups(records, "behaviour").items():
        for one in logged:
            returns = [_return(found.get((name, one.seed, method))) for method in _TRAINED]
            ours = found.get((name, one.seed, "nopg"))
            rows.append((name, str(one.seed), *returns, *_said(ours)))
    return rows


def _said(record: Record | None) -> tuple[str, ...]:
    """Return what a training said before its controller ran: return, interval, verdict, start, CPU time."""
    if record is None:
        return ("no run", "", "", "", "")
    said = record.summary
    if "refused" in said:
        return ("", "", said["refused"], "", "")
    low, high = said["interval"]
    values = (f"{said['expected_return']:.4g}", f"[{low:.4g}, {high:.4g}]", said["verdict"], said["start"])
    return (*values, f"{record.cpu_seconds:.0f}")


def _return(record: Record | None) -> str:
    if record is None:
        return ""
    return "refused" if "refused" in record.summary else f"{record.true_return:.4g}"


def main() -> None:
    """Make the runs without a record, whatever version of the code made it, and print the page."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.many_columns",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plant", choices=tuple(TASKS))
    parser.add_argument("--logs", default="0-2", type=seeds_of, help="such as 0-2")
    parser.add_argument(
        "--rows", default=_SIZES, type=int, nargs="+", choices=_SIZES, help="sizes of the logs"
    )
    parser.add_argument(
        "--longer", action="store_true", help="only an ensemble that is larger, trained longer"
    )
    parser.add_argument("--train", action="store_true", help="train controllers instead of predicting")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    task = TASKS[given.plant]
    done = {(one.method, one.rows, one.seed) for one in read(FOLDER, STUDY) if one.benchmark == task.name}
    models: Mapping[str, Fit] = {_LONGER: _longer} if given.longer else _MODELS
    for seed in given.logs:
        for method in [one for one in _TRAINED if given.train and (one, _TRAINED_ROWS, seed) not in done]:
            note(f"{task.name}, log {seed}, {method}")
            append(trained(task, method, seed), FOLDER)
        for rows in [] if given.train else given.rows:
            if any((method, rows, seed) not in done for method in models):
                note(f"{task.name}, log {seed}, {rows} rows")
                for record in predicted(task, rows, seed, models):
                    append(record, FOLDER)
    say(page(last_of_each(read(FOLDER, STUDY))))


if __name__ == "__main__":
    main()
