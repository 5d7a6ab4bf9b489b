"""Logs of real hardware: heaters under eight controllers, a pendulum, a double pendulum. A report: run once.

Data and their sources: `studies/data.md`. One controller's runs are predicted from those of others.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import gt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy import linalg

import nopg
from nopg import Transitions
from nopg._derived import DerivedColumns
from nopg._seeding import generator
from nopg.baselines._d3rlpy import isolated
from nopg.baselines._neural import Ensemble, NeuralConfig
from nopg.errors import NopgError
from nopg.models import select_lags
from nopg.models._rollout import rollout
from nopg.report._style import AFTER, BEFORE, finish, new_figure
from studies.records import Record, code_version, last_of_each
from studies.study import Study, table

Array = npt.NDArray[np.float64]

# Fixed before the first run.
# A row every 5 s, as the published models are slower than 90 s. The action is the mean of the heater over the
# 5 s; temperatures and set points are those at their beginning.
_HEATER_STEP = 5.0
# Three time constants of the slowest published pole, 212 s.
_HEATER_DISCOUNT = 1.0 - _HEATER_STEP / 600.0
# The squared errors of both temperatures, as in the publication.
_HEATER_COST = "(T1 - S1)**2 + (T2 - S2)**2"
# Identified from the open loop and the two runs whose filters have complex poles, which derived columns
# cannot express; the other six controllers are held out.
_IDENTIFIED = ("nominal-augmented-pca", "nominal-constrained-ml-2")
_HELD_OUT = ("augmented-arx", "constrained-ml-1", "reg-and-cons-ml", "regularized-ml-2")
_FAILED = ("regularized-ml-1", "unregularized-ml")
# A task begins where the set points may change, every 300 s; lags are those that `select_lags` finds.
_SEGMENT = 60
# As published with the controllers: deviations are from these set points and heater positions.
_REST, _HALF_POWER = np.array([54.736, 47.904]), np.array([50.0, 50.0])
_HEATERS_AHEAD = (60.0, 300.0)
# The step of the coarsest log of the pendulum; states are measured position and velocity, without lags. The
# log with another mass is left out.
_PENDULUM_STEP, _PENDULUMS_AHEAD = 0.02, (1.0, 3.0)
_PENDULUM_LOGS = (
    *("ddp", "direct-collocation", "energy-shaping", "gravity-compensation"),
    *("ilqr", "pd-identification", "sac"),
)
# Upright costs nothing, hanging 2; a horizon of 2 s, about a swing.
_PENDULUM_COST, _PENDULUM_DISCOUNT = "1 + cos(q)", 0.99
# Columns of the files, states and actions, and their names here.
_MEASURED = (["pos_meas1", "pos_meas2", "vel_meas1", "vel_meas2"], ["tau_meas1", "tau_meas2"])
_PENDULUMS = {
    "pendulum": (["position", "velocity"], ["torque"], ["q", "w"], ["u"]),
    "double pendulum": (*_MEASURED, ["q1", "q2", "w1", "w2"], ["u1", "u2"]),
}
# Rollouts begin in every fifth row.
_EVERY = 5


def _on_grid(path: Path, step: float, states: Sequence[str], actions: Sequence[str]) -> tuple[Array, Array]:
    """Return states (T + 1, d_s) at regular times, and the means (T, d_a) of actions in between."""
    log = pd.read_parquet(path)
    t = log.iloc[:, 0].to_numpy(float)
    grid = t[0] + step * np.arange(int((t[-1] - t[0]) / step + 1e-6) + 1)
    found = np.stack([np.interp(grid, t, log[name].to_numpy(float)) for name in states], axis=1)
    used = log[list(actions)].to_numpy(float)
    total = np.concatenate([np.zeros((1, len(actions))), np.cumsum(used[:-1] * np.diff(t)[:, None], axis=0)])
    sums = np.stack([np.interp(grid, t, column) for column in total.T], axis=1)
    return found, np.diff(sums, axis=0) / step


def _joined(runs: Sequence[tuple[Array, Array]], **settings: Any) -> Transitions:
    """Return the runs as episodes; the reward is a formula."""
    states, actions = (np.concatenate([run[k][: len(run[1])] for run in runs]) for k in (0, 1))
    episodes = np.repeat(np.arange(len(runs)), [len(run[1]) for run in runs])
    after = np.concatenate([run[0][1:] for run in runs])
    reward = settings.pop("reward", f"0 * {settings['state_names'][0]}")
    return Transitions.from_arrays(states, actions, reward, after, episodes=episodes, **settings)


def _heaters(folder: Path, names: Iterable[str], *, set_points: bool) -> Transitions:
    """Return logs of the heaters; a log without set points has those at which it rested."""
    runs, columns = [], ["T1", "T2", "T1_setpoint", "T2_setpoint"]
    for name in names:
        own = columns if name != "prbs" and set_points else columns[:2]
        states, actions = _on_grid(folder / "tclab" / f"{name}.parquet", _HEATER_STEP, own, ["Q1", "Q2"])
        if set_points and own != columns:
            states = np.concatenate([states, np.tile(states.mean(axis=0), (len(states), 1))], axis=1)
        runs.append((states, actions))
    more: dict[str, Any] = {}
    if set_points:
        begins = [np.arange(len(u)) % _SEGMENT == 0 for _, u in runs]
        begins = [own & (name != "prbs") for own, name in zip(begins, names, strict=True)]
        more = {"exogenous": ["S1", "S2"], "reward": f"-({_HEATER_COST})"}
        more |= {"begins": np.concatenate(begins)} if any(own.any() for own in begins) else {}
    return _joined(
        runs,
        state_names=["T1", "T2", "S1", "S2"][: runs[0][0].shape[1]],
        action_names=["Q1", "Q2"],
        bounds={"Q1": (0.0, 100.0), "Q2": (0.0, 100.0)},
        interval=_HEATER_STEP,
        **more,
    )


def _heater_law(folder: Path, name: str) -> tuple[dict[str, tuple[str, str]], Callable[[Any], Array]]:
    """Return the filter of a published controller as derived columns, and its law on the states.

    Within the 5 s of a row the filter sees the mean heater and the temperatures between the two rows. Its
    states are turned by a Schur decomposition, so that each column depends on itself and those before it.
    """
    model = json.loads((folder / "tclab" / "controllers.json").read_text())[name]["model"]
    A, B, C, Bd, Cd, K = (np.array(model[key]) for key in ("A", "B", "C", "Bd", "Cd", "K"))
    n, zero = len(A), np.zeros((2, 2))
    by_input = np.concatenate([np.concatenate([B, zero]), K], axis=1)
    error = np.block([[A, Bd], [np.zeros((2, n)), np.eye(2)]]) - K @ np.concatenate([C, Cd], axis=1)
    powers = [np.linalg.matrix_power(error, k) for k in range(int(_HEATER_STEP) + 1)]
    triangle, turn = linalg.schur(powers[-1])
    driven = turn.T @ sum(powers[:-1]) @ by_input
    inputs = [f"({u} - {rest})" for u, rest in zip(("Q1", "Q2"), _HALF_POWER, strict=True)]
    inputs += [f"(({y} + next({y})) / 2 - {rest})" for y, rest in zip(("T1", "T2"), _REST, strict=True)]
    formulas = {}
    for k in reversed(range(n + 2)):
        parts = [f"{float(triangle[k, j])!r} * f{j}" for j in range(n + 2) if triangle[k, j] or j == k]
        parts += [f"{float(one)!r} * {text}" for one, text in zip(driven[k], inputs, strict=True)]
        formulas[f"f{k}"] = ("0", " + ".join(parts))
    P = linalg.solve_discrete_are(A, B, C.T @ C, 0.01 * np.eye(2))
    L = np.linalg.solve(0.01 * np.eye(2) + B.T @ P @ B, B.T @ P @ A)
    rest = np.linalg.inv(np.block([[np.eye(n) - A, -B], [C, zero]]))

    def law(states: Any) -> Array:
        s = np.asarray(states)
        z = s[:, -n - 2 :][:, ::-1] @ turn.T
        x, d = z[:, :n], z[:, n:]
        wanted = np.concatenate([d @ Bd.T, s[:, 2:4] - _REST - d @ Cd.T], axis=1) @ rest.T
        return np.asarray(np.clip(_HALF_POWER + wanted[:, n:] - (x - wanted[:, :n]) @ L.T, 0.0, 100.0))

    return formulas, law


def _discounted(costs: Array, discount: float, rows: int) -> float:
    weights = discount ** np.arange(rows)
    return float(weights @ costs[:rows] / weights.sum())


def _assessed(law: Any, data: Transitions, discount: float) -> dict[str, Any]:
    """Return the predicted cost per row with its interval and verdict."""
    one, scale = nopg.evaluate_offline(law, data, discount), discount - 1.0
    interval = sorted(scale * end + 0.0 for end in one.interval)
    found = {"predicted": scale * one.expected_return, "interval": interval, "verdict": one.verdict}
    return found | {"reasons": list(one.reasons), "unknown_mass": one.unknown_mass}


def _described(folder: Path, name: str) -> dict[str, Any]:
    """Return what `describe` and `select_lags` say of one log of the heaters."""
    found = nopg.describe(_heaters(folder, [name], set_points=name != "prbs"))
    lags = select_lags(_heaters(folder, [name], set_points=False))
    findings = [f"{one.grade}, {one.topic}: {one.what}" for one in found.findings if one.grade != "ok"]
    return {"grade": str(found.grade), "findings": findings, "lags": {**lags.lags}, "delays": {**lags.delays}}


def _identified_lags(folder: Path) -> dict[str, int]:
    return dict(select_lags(_heaters(folder, ("prbs", *_IDENTIFIED), set_points=False)).lags)


def _heater_cost(folder: Path, name: str) -> dict[str, Any]:
    """Return measured and predicted cost per row of a controller; what is refused says why."""
    training = _heaters(folder, ("prbs", *_IDENTIFIED), set_points=True)
    own = _heaters(folder, [f"nominal-{name}"], set_points=True)
    costs, most = -own.rewards.numpy(), int(np.log(0.05) / np.log(_HEATER_DISCOUNT))
    starts = range(0, len(costs) - most, _SEGMENT)
    measured = float(np.mean([_discounted(costs[row:], _HEATER_DISCOUNT, most) for row in starts]))
    found = {"measured": measured, "whole_run": float(costs.mean())}
    try:
        formulas, law = _heater_law(folder, name)
        lags = _identified_lags(folder)
        run = own.derive(lags=lags, formulas=formulas)
        missed = np.square(law(run.states) - run.actions.numpy()).mean(axis=0) ** 0.5
        data = training.derive(lags=lags, formulas=formulas)
        return found | {"law_error": missed.tolist()} | _assessed(law, data, _HEATER_DISCOUNT)
    except NopgError as error:
        return found | {"verdict": "refused", "reasons": [str(error)]}


def _failure(folder: Path) -> dict[str, Any]:
    """Return what the logs of the others say of the PD controller that failed, fitted to its own log."""
    own = _swings(folder, "pendulum", ["pd-failure"])
    inputs = torch.cat([own.states, torch.ones(len(own), 1)], dim=1).double()
    gains = torch.linalg.lstsq(inputs, own.actions).solution
    low, high, costs = own.actions.min(), own.actions.max(), -own.rewards.numpy()
    found = {"measured": _discounted(costs, _PENDULUM_DISCOUNT, len(costs)), "gains": gains[:, 0].tolist()}
    data = _swings(folder, "pendulum", _PENDULUM_LOGS).starting_at(own.states[:1])
    law = lambda s: (s @ gains[:2] + gains[2]).clamp(low, high)  # noqa: E731
    return found | _assessed(law, data, _PENDULUM_DISCOUNT)


def _ahead(data: Transitions, test: Transitions, seconds: Sequence[float], step: float) -> dict[str, Any]:
    """Return held-out root mean square errors of rollouts under logged actions, by method and horizon."""
    rows, methods = torch.arange(0, len(test), _EVERY), {"nopg": _nopg, "rival": _ensemble}
    if "T1" in data.schema.states:
        methods["rival"] = _arx
    assert test.episodes is not None
    left, found = torch.bincount(test.episodes).cumsum(0)[test.episodes] - torch.arange(len(test)), {}
    for method, fit in methods.items():
        predict = fit(data)
        for steps in (round(ahead / step) for ahead in seconds):
            starts = rows[left[rows] >= steps]
            actions = torch.stack([test.actions[starts + t] for t in range(steps)])
            predicted = torch.as_tensor(predict(test.states[starts], actions))
            missed = test.schema.difference(predicted, test.next_states[starts + steps - 1])
            errors = missed[:, : len(test.schema.measured)].square().mean(dim=0).sqrt()
            found[f"{method} {steps * step:g} s"] = errors.tolist()
    return found | {"rows": len(data)}


Predict = Callable[[torch.Tensor, torch.Tensor], Any]
"""From states (m, d_s) and actions (T, m, d_a) to states T steps later (m, d_s)."""


def _nopg(data: Transitions) -> Predict:
    model = nopg.LocalModel(data)
    return lambda states, actions: rollout(model, lambda _, t: actions[t], states, len(actions)).states[-1]


def _arx(data: Transitions) -> Predict:
    """Return least squares with the same lags."""
    derived, width = DerivedColumns.of(data.schema), len(data.schema.measured)

    def inputs(s: Array, a: Array) -> Array:
        return np.concatenate([s, a, np.ones((len(s), 1))], axis=1)

    Z = inputs(data.states.numpy(), data.actions.numpy())
    coefficients = np.linalg.lstsq(Z, data.next_states[:, :width].numpy(), rcond=None)[0]

    def predict(states: torch.Tensor, actions: torch.Tensor) -> Array:
        s = states.numpy()
        for a in actions.numpy():
            s = np.asarray(derived.following(s, a, inputs(s, a) @ coefficients))
        return s

    return predict


def _ensemble(data: Transitions) -> Predict:
    """Return the mean of the members of a neural ensemble, each of which follows its own path."""
    with isolated(0):
        models = Ensemble(data, config := NeuralConfig(), generator(0, "neural model"))

    def predict(states: torch.Tensor, actions: torch.Tensor) -> Any:
        s = states.float().expand(config.members, -1, -1)
        for a in actions.float():
            s = models.step(s, a.expand(config.members, -1, -1))[0]
        return s.mean(dim=0).double()

    return predict


def _swings(folder: Path, plant: str, names: Iterable[str]) -> Transitions:
    """Return logs of one of the pendulums."""
    states, actions, columns, inputs = _PENDULUMS[plant]
    place, half = folder / plant.replace(" ", "_"), len(columns) // 2
    files = [file for name in names for file in sorted(place.glob(f"{name}.parquet"))]
    runs = [_on_grid(file, _PENDULUM_STEP, states, actions) for file in files]
    more = {"reward": f"-({_PENDULUM_COST})"} if plant == "pendulum" else {}
    return _joined(runs, state_names=columns, action_names=inputs, angles=columns[:half], **more)


def _blank(job: tuple[Path, str, str, str]) -> Record:
    _, plant, part, name = job
    commit, options = code_version("src/nopg", "studies/hardware.py"), {"part": part, "run": name}
    return Record(
        study="hardware", benchmark=plant, method="nopg", commit=commit, role="report", options=options
    )


def _run(job: tuple[Path, str, str, str]) -> list[Record]:
    folder, plant, part, name = job
    began = time.process_time()
    if part == "describe":
        found = _described(folder, name)
    elif part == "cost":
        found = _heater_cost(folder, name) if plant == "TCLab" else _failure(folder)
    elif plant == "TCLab":
        logs, lags = [("prbs", *_IDENTIFIED), (f"nominal-{name}",)], _identified_lags(folder)
        data, test = (_heaters(folder, one, set_points=False).derive(lags=lags) for one in logs)
        found = _ahead(data, test, _HEATERS_AHEAD, _HEATER_STEP)
    else:
        others = [one for one in _PENDULUM_LOGS if one != name]
        if plant == "double pendulum":
            others = ["sysid-*" if name == "pendubot" else "pendubot-*"]
        own = [name if plant == "pendulum" else f"{name}-*"]
        data, test = (_swings(folder, plant, one) for one in (others, own))
        found = _ahead(data, test, _PENDULUMS_AHEAD, _PENDULUM_STEP)
    seconds = round(time.process_time() - began, 1)
    return [replace(_blank(job), cpu_seconds=seconds, results=found)]


def _jobs(given: argparse.Namespace) -> list[tuple[Path, str, str, str]]:
    logs = sorted(path.stem for path in (given.data / "tclab").glob("*.parquet"))
    wanted = [("TCLab", "cost", name) for name in (*_HELD_OUT, *_FAILED, "constrained-ml-2")]
    wanted += [("TCLab", "ahead", name) for name in _HELD_OUT]
    wanted += [("pendulum", "cost", "pd-failure"), ("pendulum", "ahead", "pd-failure")]
    wanted += [("pendulum", "ahead", name) for name in _PENDULUM_LOGS]
    wanted += [("double pendulum", "ahead", name) for name in ("pendubot", "sysid")]
    wanted += [("TCLab", "describe", name) for name in logs]
    return [(given.data, *one) for one in wanted]


def _cost_row(plant: str, name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    ends = "{predicted:.4g} [{interval[0]:.4g}, {interval[1]:.4g}]" if "predicted" in one else ""
    return (plant, name, f"{one['measured']:.4g}", ends.format(**one), one["verdict"])


def _ahead_row(plant: str, name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [" / ".join(f"{x:.2f}" for x in values) for key, values in one.items() if key != "rows"]
    return (plant, name, cells[0], cells[2], cells[1], cells[3])


def _log_row(_: str, name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    counts = [", ".join(f"{k} {v}" for k, v in one[key].items()) for key in ("lags", "delays")]
    return (name, one["grade"], *counts, "; ".join(one["findings"]).replace("|", "/"))


_TEXT = f"""# Logs of real hardware

Made by `python -m studies page hardware` from `results/studies/hardware.jsonl`; the runs by
`python -m studies hardware --data FOLDER` with the public data of [data.md](../data.md). All settings were
fixed before the first run.

## Cost of controllers that the model has not seen

Predicted from logs of others, then compared with the run on the hardware. TCLab:
`{_HEATER_COST}` in K², discounted (γ = {_HEATER_DISCOUNT:.4f} at {_HEATER_STEP:g} s) and per row, from
{", ".join(("prbs", *_IDENTIFIED))}.
On the hardware {" and ".join(_FAILED)} failed; constrained-ml-2 is
one of the logs. Pendulum: `{_PENDULUM_COST}`
(γ = {_PENDULUM_DISCOUNT}, hanging 2), a swing-up that failed; its law is fitted to its log.

COST

Why they are not `ok`:

REASONS

## States ahead

Errors above those of the rival: SCORES.

Held-out root mean square errors of all measured columns under the logged actions: T1 / T2 in K, 60 and
300 s ahead; angles and velocities in rad and rad/s, 1 and 3 s ahead. The rival of the heaters is an ARX with
the same lags, that of the pendulums a neural ensemble on the same rows.

AHEAD

## What the logs say before

Findings of `describe` and choices of `select_lags`, in rows of {_HEATER_STEP:g} s. `prbs` has no
set points and so no cost; the set points of `disturbed-*` rest.

DESCRIBE
"""
_TABLES = {
    "cost": (_cost_row, ("plant", "controller", "measured", "predicted, 95 %", "verdict")),
    "ahead": (_ahead_row, ("plant", "held out", "nopg", "rival", "nopg, long", "rival, long")),
    "describe": (_log_row, ("log", "grade", "lags", "delays", "findings")),
}


def _score(plant: str, records: Sequence[Record]) -> str:
    """Return how often the errors of a plant are above those of the rival."""
    found = [one.results.items() for one in records if one.benchmark == plant]
    own, rival = (
        [x for one in found for key, values in one if key.startswith(method) for x in values]
        for method in ("nopg", "rival")
    )
    return f"{sum(map(gt, own, rival))} of {len(own)} on {plant}"


def _page(records: Sequence[Record]) -> str:
    text, found = _TEXT, {part: _part(records, part) for part in _TABLES}
    for part, (row, heads) in _TABLES.items():
        cells = [row(one.benchmark, one.options["run"], one.results) for one in found[part]]
        text = text.replace(part.upper(), "\n".join(table(heads, cells)))
    reasons = [f"- {one.options['run']}: {'; '.join(one.results['reasons'])}" for one in found["cost"]]
    plants = dict.fromkeys(one.benchmark for one in found["ahead"])
    scores = ", ".join(_score(plant, found["ahead"]) for plant in plants)
    return text.replace("REASONS", "\n".join(reasons)).replace("SCORES", scores)


def _part(records: Sequence[Record], part: str) -> list[Record]:
    return [one for one in last_of_each(records) if one.options["part"] == part]


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    costs = [one for one in _part(records, "cost") if one.benchmark == "TCLab"]
    rows = [(one.options["run"], one.results) for one in costs if "predicted" in one.results]
    figure = new_figure(4.8, 2.6)
    axis = figure.subplots()
    for k, (_, one) in enumerate(rows):
        sides = [[abs(one["predicted"] - end)] for end in one["interval"]]
        label = "" if k else "predicted, 95 %"
        axis.errorbar([one["predicted"]], [k], xerr=sides, fmt="o", color=BEFORE, capsize=3, label=label)
        axis.plot([one["measured"]], [k], "D", color=AFTER, label="" if k else "measured")
    axis.set_yticks(range(len(rows)), [f"{name}: {one['verdict']}" for name, one in rows])
    axis.set_xscale("log")
    axis.set_xlim(left=1.0)
    axis.invert_yaxis()
    finish(axis, x="squared tracking error, discounted (K²)", legend=True)
    return {"hardware": figure}


HARDWARE = Study(
    name="hardware",
    about="logs of real hardware: heaters, a pendulum, a double pendulum",
    arguments=lambda parser: parser.add_argument(
        "--data", required=True, type=Path, help="folder of the logs"
    ),
    jobs=_jobs,
    run=_run,
    blank=_blank,
    page=_page,
    figures=_figures,
    file="studies/pages/hardware.md",
)
