"""Rewards that are a column without a formula: nopg beside the controller that logged, on four plants."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import nopg
from studies.plants.laws import Array, Feedback
from studies.plants.plant import Plant, horizon, random_generator
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table

_DISCOUNT, _STEPS, _EPISODES = 0.97, 50, 200


def _reactor_rates(x: Array, u: Array) -> Array:
    """Conversion and temperature of a stirred tank at its unstable rest; the action cools."""
    made = 0.072 * (1.0 - x[:, 0]) * np.exp(x[:, 1] / (1.0 + x[:, 1] / 20.0))
    return np.stack([made - x[:, 0], 8.0 * made - 1.3 * x[:, 1] - u[:, 0]], axis=1)


_REACTOR = Plant(
    name="unstable-reactor",
    states={"conversion": "1", "temperature": "K"},
    actions={"cooling": ("K/min", -3.0, 3.0)},
    rates=_reactor_rates,
    time_step=0.15,
    target=(0.4472, 2.7517),
    trim=(0.0,),
    prices=(1.0, 1.0),
    action_prices=(0.1,),
    start_low=(0.35, 2.3),
    start_high=(0.55, 3.2),
    process_noise=(0.001, 0.005),
    reward=lambda s, a, after: -np.log(np.abs(after[:, 1] - 2.7517) + 0.02) - 0.1 * np.abs(a[:, 0]),
    limit=lambda x: np.clip(x, 0.0, (1.0, 9.0)),
)


def _lift_rates(x: Array, u: Array) -> Array:
    """Height and speed of a lift that sinks faster than it rises."""
    wanted = np.where(u[:, 0] > 0, 1.0, 1.6) * u[:, 0]
    return np.stack([x[:, 1], (wanted - x[:, 1]) / 0.3], axis=1)


_LIFT = Plant(
    name="hydraulic-lift",
    states={"height": "m", "speed": "m/s"},
    actions={"valve": ("1", -1.0, 1.0)},
    rates=_lift_rates,
    time_step=0.2,
    target=(1.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.1),
    action_prices=(0.1,),
    start_low=(0.0, -0.2),
    start_high=(2.0, 0.2),
    process_noise=(0.001, 0.005),
    reward=lambda s, a, after: (
        -np.sqrt(np.abs(after[:, 0] - 1.0)) - 5.0 * np.maximum(np.abs(after[:, 1]) - 0.5, 0.0)
    ),
    limit=lambda x: np.clip(x, (-1.0, -3.0), (3.0, 3.0)),
)


def _header_rates(x: Array, u: Array) -> Array:
    """Two flows that follow their valves, and the pressure of the header that they feed."""
    flows, pressure = x[:, :2], x[:, 2]
    out = 1.2 * np.sqrt(np.maximum(pressure, 0.0))
    into = (u * np.maximum(3.0 - pressure[:, None], 0.0) - flows) / 0.5
    return np.concatenate([into, (flows.sum(axis=1) - out)[:, None]], axis=1)


_HEADER = Plant(
    name="blending-header",
    states={"first": "L/s", "second": "L/s", "pressure": "bar"},
    actions={"one": ("1", 0.0, 1.0), "other": ("1", 0.0, 1.0)},
    rates=_header_rates,
    time_step=0.2,
    target=(0.6, 0.6, 1.0),
    trim=(0.3, 0.3),
    prices=(1.0, 1.0, 1.0),
    action_prices=(1.0, 1.0),
    start_low=(0.3, 0.3, 0.6),
    start_high=(0.9, 0.9, 1.4),
    process_noise=(0.005, 0.005, 0.005),
    reward=lambda s, a, after: (
        -np.log(np.abs(after[:, 0] - after[:, 1]) + 0.02) - 3.0 * np.abs(after[:, 2] - 1.0)
    ),
    limit=lambda x: np.clip(x, 0.0, 3.0),
)


def _balance_rates(x: Array, u: Array) -> Array:
    """Tilt and rate of a beam near upright."""
    return np.stack([x[:, 1], 4.0 * np.sin(x[:, 0]) - 0.2 * x[:, 1] + 3.0 * u[:, 0]], axis=1)


_BALANCE = Plant(
    name="balance",
    states={"tilt": "rad", "rate": "rad/s"},
    actions={"torque": ("N m", -1.0, 1.0)},
    rates=_balance_rates,
    time_step=0.1,
    target=(0.0, 0.0),
    trim=(0.0,),
    prices=(1.0, 0.1),
    action_prices=(0.1,),
    start_low=(-0.2, -0.2),
    start_high=(0.2, 0.2),
    process_noise=(0.001, 0.005),
    reward=lambda s, a, after: np.exp(-np.abs(after[:, 0]) / 0.03) - 0.2 * a[:, 0] ** 2,
    limit=lambda x: np.clip(x, (-1.5, -6.0), (1.5, 6.0)),
)

_PLANTS = {plant.name: plant for plant in (_REACTOR, _LIFT, _HEADER, _BALANCE)}


def _blank(job: tuple[str, int, int]) -> Record:
    name, rows, seed = job
    commit = code_version("src/nopg")
    return Record(
        study="learned-rewards",
        benchmark=name,
        method="nopg",
        rows=rows,
        seed=seed,
        commit=commit,
        role="development",
    )


def _run(job: tuple[str, int, int]) -> list[Record]:
    name, rows, seed = job
    plant, began = _PLANTS[name], time.process_time()
    noise = plant.dither * (plant.action_high - plant.action_low)
    logger = Feedback(law=plant.law(plant.gain(10.0)), dither=noise)
    rng = random_generator(seed, f"log of {name}")
    count = -(-rows // _STEPS)
    data = plant.transitions(plant.run(logger(count, rng), plant.starts(count, rng), _STEPS, rng), rows)
    result = nopg.optimize(data, _DISCOUNT, config=nopg.TrainingConfig(seed=seed, progress=False))
    seconds, truths = time.process_time() - began, {}
    for method in ("logged", "nopg"):
        rng = random_generator(10_000, f"truth of {name}")
        starts = plant.starts(_EPISODES, rng)
        law = logger(_EPISODES, rng) if method == "logged" else result.policy
        runs = plant.run(law, starts, horizon(_DISCOUNT), rng)
        truths[method] = float((_DISCOUNT ** np.arange(len(runs.rewards)) @ runs.rewards).mean())
    summary = {"verdict": result.verdict, "expected_return": result.expected_return, "start": result.start}
    return [
        replace(
            _blank(job),
            cpu_seconds=round(seconds, 1),
            discounted=truths["nopg"],
            episodes=_EPISODES,
            summary=summary | {"interval": result.interval},
            results=truths,
        )
    ]


def _page(records: Sequence[Record]) -> str:
    rows = []
    for one in sorted(last_of_each(records), key=lambda one: (one.benchmark, one.rows, one.seed)):
        low, high = one.summary["interval"]
        predicted = f"{one.summary['expected_return']:.3g} [{low:.3g}, {high:.3g}]"
        truths = [f"{one.results[name]:.3g}" for name in ("logged", "nopg")]
        rows.append((one.benchmark, str(one.rows), str(one.seed), *truths, predicted, one.summary["verdict"]))
    return "\n".join(
        [
            "# Rewards without a formula",
            "",
            "Made by `python -m studies page learned-rewards` from `results/studies/learned-rewards.jsonl`;",
            "the runs by `python -m studies learned-rewards --rows 500 --logs 0-1`. Four development plants,",
            f"logged by a soft linear controller with noise in episodes of {_STEPS} rows; the reward is a",
            "column with edges in the state after the step. True mean discounted returns",
            f"(γ = {_DISCOUNT}) of {_EPISODES} episodes from new starts.",
            "",
            *table(("plant", "rows", "log", "logged", "nopg", "predicted", "verdict"), rows),
            "",
        ]
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plants", nargs="+", default=[*_PLANTS], choices=[*_PLANTS])
    parser.add_argument("--rows", nargs="+", default=[500], type=int, help="sizes of the logs")
    parser.add_argument("--logs", default=tuple(range(10)), type=seeds_of, help="such as 0-2")


LEARNED_REWARDS = Study(
    name="learned-rewards",
    about="rewards without a formula, beside the controller that logged",
    arguments=_arguments,
    jobs=lambda given: [
        (name, rows, seed) for name in given.plants for rows in given.rows for seed in given.logs
    ],
    run=_run,
    blank=_blank,
    page=_page,
    file="studies/pages/learned-rewards.md",
)
