"""The picture of the README: what was predicted from 450 logged steps, and what the pendulum then did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import nopg
from nopg.envs import Pendulum, collect_grid, simulate
from nopg.models._rollout import rollout
from nopg.report._style import new_figure
from studies.paper_data import PENDULUM_GRIDS
from studies.records import Record, code_version
from studies.study import Study

_DISCOUNT, _ROWS, _STEPS, _SHOWN = 0.97, 450, 500, 150
_PREDICTED, _TRUE = "#0072B2", "#D55E00"


def _blank(rows: int) -> Record:
    commit = code_version("src/nopg")
    return Record(study="promise", benchmark="pendulum-grid", method="nopg", rows=rows, commit=commit)


def _run(rows: int) -> list[Record]:
    """Train with the discount alone, predict, and run."""
    plant = Pendulum()
    data = collect_grid(plant, PENDULUM_GRIDS[rows])
    result = nopg.optimize(data, _DISCOUNT, config=nopg.TrainingConfig(progress=False))
    problem, policy = result.problem.multistep, result.policy.policy
    paths = rollout(problem.model, lambda features, _: policy.mode(features), problem.starts, _STEPS)
    run = simulate(plant, result.policy, steps=_STEPS)
    shares = _DISCOUNT ** np.arange(_STEPS)
    true_angle = np.remainder(run.states[:_SHOWN, 0, 0].numpy() + math.pi, 2 * math.pi) - math.pi
    results = {
        "discount": _DISCOUNT,
        "seconds_per_step": plant.time_step,
        "expected_return": result.expected_return,
        "predicted_return": float((paths.going[:-1, 0] * shares * paths.rewards[:, 0]).sum()),
        "true_return": float(run.discounted_returns(_DISCOUNT)[0]),
        "undiscounted_return": float(run.returns[0]),
        "unknown_mass": result.unknown_mass,
        "predicted": {
            "angle": [round(x, 4) for x in paths.states[:_SHOWN, 0, 0].tolist()],
            "torque": [round(x, 4) for x in paths.actions[:_SHOWN, 0, 0].tolist()],
        },
        "true": {
            "angle": [round(x, 4) for x in true_angle.tolist()],
            "torque": [round(x, 4) for x in run.actions[:_SHOWN, 0, 0].tolist()],
        },
    }
    return [replace(_blank(rows), results=results)]


def _figure(rows: int, record: Mapping[str, Any]) -> Any:
    figure = new_figure(8.0, 3.2)
    axes = figure.subplots(1, 2, sharex=True)
    seconds = [record["seconds_per_step"] * t for t in range(len(record["true"]["angle"]))]
    for axis, name, label in (
        (axes[0], "angle", "angle"),
        (axes[1], "torque", "torque (N m)"),
    ):
        axis.plot(
            seconds, _unbroken(record["true"][name], name), color=_TRUE, lw=3, alpha=0.6, label="then run"
        )
        axis.plot(
            seconds, _unbroken(record["predicted"][name], name), color=_PREDICTED, ls="--", label="predicted"
        )
        axis.set(xlabel="time (s)", ylabel=label)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks([0, math.pi, 2 * math.pi], ["upright", "hanging", "upright"])
    axes[0].set_ylim(-0.3, 2 * math.pi + 0.3)
    axes[1].legend(frameon=False, loc="upper right")
    figure.suptitle(
        f"Swing-up from {rows} logged steps: discounted return predicted "
        f"{record['predicted_return']:.1f}, then measured {record['true_return']:.1f}",
        fontsize=11,
    )
    return figure


def _unbroken(values: list[float], name: str) -> list[float]:
    """Return angles without the jump from π to −π."""
    if name != "angle":
        return values
    angles = np.unwrap(values)
    return [float(angle) for angle in angles + 2 * math.pi * (angles[0] < 0)]  # −π hangs as π does


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    return {"promise": _figure(records[-1].rows, records[-1].results)}


PROMISE = Study(
    name="promise",
    about="the picture of the README",
    arguments=lambda parser: None,
    jobs=lambda given: [_ROWS],
    run=_run,
    blank=_blank,
    figures=_figures,
)
