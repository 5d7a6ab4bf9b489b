"""Two coupled masses that follow set points under a logarithmic cost: nopg beside an engineer's LQR."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import linalg

import nopg
from nopg import Transitions
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table

Array = npt.NDArray[np.float64]
Law = Callable[[Array], Array]
"""From states (m, 6), positions, velocities and set points, to forces (m, 2)."""

_DISCOUNT, _STEPS, _INTERVAL, _NOISE, _EPISODES = 0.97, 100, 0.2, 0.002, 400
_COST = "log(abs(next(x1) - g1) + 0.01) + log(abs(next(x2) - g2) + 0.01)"
# Weights of forces that an engineer tries; the best one by the truth is the rival.
_WEIGHTS = (1e-4, 1e-3, 1e-2)
# Gains of the two PID loops that log: proportional, integral, derivative.
_PID = np.array([[1.0, 1.2], [0.3, 0.25], [0.4, 0.3]])


@cache
def _plant() -> tuple[Array, Array]:
    """Return the matrices of one step of positions and velocities, by forces within [−1, 1]."""
    A = np.zeros((6, 6))
    A[:2, 2:4] = np.eye(2)
    A[2:4, :4] = [[-1.8, 0.8, -0.4, 0.1], [0.8 / 1.5, -2.0 / 1.5, 0.07, -0.35]]
    A[2:4, 4:] = np.diag([2.5, 2.5 / 1.5])
    step = linalg.expm(_INTERVAL * A)
    return step[:4, :4], step[:4, 4:]


def _episodes(law: Law | None, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return states (T + 1, m, 6), forces (T, m, 2) and rewards (T, m) of a law, or of the PID loops."""
    F, G = _plant()
    x = np.concatenate([rng.uniform(-0.3, 0.3, (count, 2)), np.zeros((count, 2))], axis=1)
    goals, total, last = rng.uniform(-0.6, 0.6, (count, 2)), np.zeros((count, 2)), None
    states, forces, rewards = [np.concatenate([x, goals], axis=1)], list[Array](), list[Array]()
    for _ in range(_STEPS):
        if law is None:
            error = goals - x[:, :2]
            total = total + _INTERVAL * error
            rate = 0.0 if last is None else (error - last) / _INTERVAL
            u, last = _PID[0] * error + _PID[1] * total + _PID[2] * rate, error
        else:
            u = law(states[-1])
        forces.append(np.clip(u, -1.0, 1.0))
        x = x @ F.T + forces[-1] @ G.T + _NOISE * rng.normal(size=x.shape)
        states.append(np.concatenate([x, goals], axis=1))
        rewards.append(-np.log(np.abs(x[:, :2] - goals) + 0.01).sum(axis=1))
    return np.stack(states), np.stack(forces), np.stack(rewards)


def log(rows: int, seed: int, *, stated: bool) -> Transitions:
    """Return a log of the PID loops, a set point in each episode; the cost is stated, or a column."""
    count = -(-rows // _STEPS)
    states, forces, rewards = _episodes(None, count, np.random.default_rng(seed))
    s, a, r, after = (
        part.swapaxes(0, 1).reshape(count * _STEPS, -1) for part in (states[:-1], forces, rewards, states[1:])
    )
    data = Transitions.from_arrays(
        s,
        a,
        r[:, 0],
        after,
        episodes=np.repeat(np.arange(count), _STEPS),
        state_names=["x1", "x2", "v1", "v2", "g1", "g2"],
        action_names=["u1", "u2"],
        bounds={"u1": (-1.0, 1.0), "u2": (-1.0, 1.0)},
        exogenous={"g1": "hold", "g2": "hold"},
    )
    return data.with_reward(f"-({_COST})") if stated else data


def engineers_law(data: Transitions, weight: float) -> Law:
    """Return LQR on the errors about the state and force at which a linear fit rests at the set points."""
    s, a, after = data.states.numpy(), data.actions.numpy(), data.next_states.numpy()
    fit = np.linalg.lstsq(np.concatenate([s[:, :4], a], axis=1), after[:, :4], rcond=None)[0].T
    F, G, C = fit[:, :4], fit[:, 4:], np.eye(2, 4)
    P = linalg.solve_discrete_are(F, G, C.T @ C + 1e-9 * np.eye(4), weight * np.eye(2))
    K = np.linalg.solve(weight * np.eye(2) + G.T @ P @ G, G.T @ P @ F)
    rest = np.linalg.inv(np.block([[F - np.eye(4), G], [C, np.zeros((2, 2))]]))[:, 4:]

    def law(states: Array) -> Array:
        wanted = states[:, 4:] @ rest.T
        return np.asarray(wanted[:, 4:] - (states[:, :4] - wanted[:, :4]) @ K.T)

    return law


def _blank(job: tuple[int, int, bool]) -> Record:
    rows, seed, stated = job
    return Record(
        study="set-points",
        benchmark="coupled masses",
        method="nopg",
        rows=rows,
        seed=seed,
        commit=code_version("src/nopg"),
        role="development",
        options={"cost": "stated" if stated else "column"},
    )


def _run(job: tuple[int, int, bool]) -> list[Record]:
    rows, seed, stated = job
    data, began = log(rows, seed, stated=stated), time.process_time()
    result = nopg.optimize(data, _DISCOUNT, config=nopg.TrainingConfig(seed=seed, progress=False))
    seconds = time.process_time() - began
    laws = {f"lqr {weight:g}": engineers_law(data, weight) for weight in _WEIGHTS} | {"pid": None}
    found = {
        name: _episodes(law, _EPISODES, np.random.default_rng(10_000))[2]
        for name, law in {**laws, "nopg": lambda states: np.asarray(result.policy(states))}.items()
    }
    gamma = _DISCOUNT ** np.arange(_STEPS)
    means = {
        name: {"discounted": float((gamma @ one).mean()), "sum": float(one.sum(axis=0).mean())}
        for name, one in found.items()
    }
    summary = {"verdict": result.verdict, "expected_return": result.expected_return, "start": result.start}
    return [
        replace(
            _blank(job),
            cpu_seconds=round(seconds, 1),
            discounted=means["nopg"]["discounted"],
            undiscounted=means["nopg"]["sum"],
            episodes=_EPISODES,
            summary=summary | {"interval": result.interval},
            results=means,
        )
    ]


def _inside(record: Record) -> bool:
    low, high = record.summary["interval"]
    return bool(low <= record.results["nopg"]["discounted"] <= high)


def _page(records: Sequence[Record]) -> str:
    rows, every = [], sorted(last_of_each(records), key=lambda one: (str(one.options), one.rows, one.seed))
    outside = []
    for cost in ("column", "stated"):
        ok = [one for one in every if one.options["cost"] == cost and one.summary["verdict"] == "ok"]
        missed = [one for one in ok if not _inside(one)]
        outside.append(f"{len(missed)} of {len(ok)} ({cost})")
    for one in every:
        best = max(
            (name for name in one.results if name.startswith("lqr")),
            key=lambda k: one.results[k]["discounted"],
        )
        values = [
            f"{one.results[name]['discounted']:.0f} ({one.results[name]['sum']:.0f})"
            for name in ("pid", best, "nopg")
        ]
        low, high = one.summary["interval"]
        values += [f"[{low:.0f}, {high:.0f}]", one.summary["verdict"]]
        rows.append((one.options["cost"], str(one.rows), str(one.seed), *values))
    return "\n".join(
        [
            "# Set points under a logarithmic cost",
            "",
            "Made by `python -m studies page set-points` from `results/studies/set-points.jsonl`; the runs",
            "by `python -m studies set-points --rows 500 --logs 0-9`. Two coupled masses, logged by two PID",
            f"loops with one pair of set points in each episode of {_STEPS} rows. The cost is",
            f"`{_COST}`,",
            f"stated or as a column. True mean discounted return (γ = {_DISCOUNT}; in brackets the sum of",
            f"rewards) of {_EPISODES} episodes from new starts and set points. The rival is least",
            "squares and LQR on the errors with target states, of three weights the one best by the truth. A",
            "development plant.",
            "",
            "Predicted is the interval of the discounted return; of the `ok` answers",
            f"{' and '.join(outside)} returns lie outside it.",
            "Noise below 1 % of a step's variance is not drawn in rollouts, though it counts at the edge of",
            "this cost, and 500 rows have five pairs of set points.",
            "",
            *table(("cost", "rows", "log", "PID", "LQR", "nopg", "predicted", "verdict"), rows),
            "",
        ]
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", nargs="+", default=[500, 2000], type=int, help="sizes of the logs")
    parser.add_argument("--logs", default=tuple(range(10)), type=seeds_of, help="such as 0-2")
    parser.add_argument("--cost", nargs="+", default=["stated", "column"], choices=("stated", "column"))


SET_POINTS = Study(
    name="set-points",
    about="coupled masses under a logarithmic cost, beside LQR by an engineer's weights",
    arguments=_arguments,
    jobs=lambda given: [
        (rows, seed, cost == "stated") for cost in given.cost for rows in given.rows for seed in given.logs
    ],
    run=_run,
    blank=_blank,
    page=_page,
    file="studies/pages/set-points.md",
)
