"""Delays and lags that `select_lags` finds in logs of plants whose delays are known.

Ten plants with delays of 0 to 20 steps, logged by PI loops with dither and by random steps, 2 000 rows each;
and the pendulum and the cart-pole with positions only. Constants were chosen on the development plants.

    python -m studies.lags --role report --logs 10
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch

from nopg import Transitions
from nopg.envs import CartPole, Environment, Pendulum, UniformAgent, collect
from nopg.models import select_lags
from studies.lag_plants import PLANTS, Log, Role
from studies.markdown import table
from studies.printing import say
from studies.records import FOLDER, Record, append, code_version, read

__all__ = ["STUDY", "main", "page"]

STUDY = "lags"
_ROWS = 2_000
# First seed of each role: no log is used in both.
_SEEDS: dict[str, int] = {"development": 0, "report": 100}
_HIDDEN = "positions only"


@dataclass(frozen=True, slots=True)
class _Case:
    """A log with the delays that are true, or the positions whose velocity it lacks."""

    benchmark: str
    method: str
    role: Role
    seed: int

    def run(self) -> Record:
        """Return what is found in the log."""
        data, truth = self._log()
        began = time.process_time()
        found = select_lags(data)
        names = ("lags", "delays", "sure", "reasons", "errors")
        results: dict[str, Any] = {name: getattr(found, name) for name in names}
        return Record(
            study=STUDY,
            benchmark=self.benchmark,
            method=self.method,
            rows=len(data),
            seed=self.seed,
            role=self.role,
            commit=code_version("src/nopg/models", "studies/lag_plants.py"),
            cpu_seconds=round(time.process_time() - began, 2),
            results=results | truth,
        )

    def _log(self) -> tuple[Transitions, dict[str, Any]]:
        if self.method == _HIDDEN:
            data = _positions(*_ENVIRONMENTS[self.benchmark], seed=self.seed)
            return data, {"hidden": list(data.schema.states)}
        (plant,) = (one for one in PLANTS if (one.name, one.role) == (self.benchmark, self.role))
        kind: Log = "loop" if self.method == "loop" else "steps"
        return plant.log(kind, _ROWS, self.seed), {
            "truth": dict(zip(plant.actions, plant.delays, strict=True))
        }


# Environment, number of positions, episodes.
_ENVIRONMENTS: dict[str, tuple[Environment, int, int]] = {
    "pendulum": (Pendulum(), 1, 10),
    "cart-pole": (CartPole(), 2, 300),
    "cart-pole-500hz": (CartPole(rate=500), 2, 30),
}


def _positions(environment: Environment, count: int, episodes: int, *, seed: int) -> Transitions:
    """Return a log under random actions with the first columns alone."""
    agent = UniformAgent() if isinstance(environment, CartPole) else UniformAgent.within(environment)
    data = collect(environment, agent, episodes=episodes, steps=200, seed=seed)
    return Transitions.from_arrays(
        data.states[:, :count],
        data.actions,
        data.rewards,
        data.next_states[:, :count],
        terminated=data.terminated,
        truncated=data.truncated,
        episodes=data.episodes,
        state_names=data.schema.states[:count],
        action_names=data.schema.actions,
        angles=data.schema.angles,
    )


def _cases(role: Role, logs: int) -> Iterator[_Case]:
    for seed in range(_SEEDS[role], _SEEDS[role] + logs):
        for plant in (one for one in PLANTS if one.role == role):
            for kind in get_args(Log):
                yield _Case(plant.name, kind, role, seed)
        for name in _ENVIRONMENTS:
            yield _Case(name, _HIDDEN, role, seed)


def _right(record: Record) -> bool:
    """Return whether every delay is found to within one step, or every position has a lag."""
    found = record.results
    if "hidden" in found:
        return all(found["lags"].get(name, 0) >= 1 for name in found["hidden"])
    return all(abs(found["delays"].get(name, -9) - delay) <= 1 for name, delay in found["truth"].items())


def _exact(record: Record) -> bool:
    return bool(record.results.get("truth") == record.results["delays"])


def page(records: Sequence[Record]) -> str:
    """Return the page of the study."""
    lines = [
        "# Delays and lags found in a log",
        "",
        "Made by `python -m studies page lags` from `results/studies/lags.jsonl`; do not edit. Logs of 2 000",
        "rows by PI loops with dither (`loop`) and by random steps (`steps`). A delay counts as right if it",
        "is within one step of the true one. Constants of `select_lags` were chosen on the development",
        "plants. The last rows are plants without their velocities, where every position needs a lag.",
    ]
    for role in get_args(Role):
        groups = dict[tuple[str, str], list[Record]]()
        for record in (one for one in records if one.role == role):
            groups.setdefault((record.benchmark, record.method), []).append(record)
        if not groups:
            continue
        rows = [_row(name, method, found) for (name, method), found in groups.items()]
        lines += ["", f"## {role.capitalize()} plants", "", _summary(records, role), "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _row(name: str, method: str, found: Sequence[Record]) -> list[str]:
    truth = ", ".join(str(delay) for delay in found[0].results.get("truth", {}).values()) or "none"
    wrong = [record for record in found if not _right(record)]
    counts = [len(found), len(found) - len(wrong), sum(map(_exact, found)) if truth != "none" else "none"]
    sure = [sum(record.results["sure"] for record in part) for part in (found, wrong)]
    seconds = sum(record.cpu_seconds for record in found) / len(found)
    return [name, method, truth, *map(str, counts), *map(str, sure), f"{seconds:.1f}"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head = ("plant", "log", "delay", "logs", "right", "exact", "sure", "sure and wrong", "CPU s")
    return table(head, rows)


def _summary(records: Sequence[Record], role: Role) -> str:
    """Return how many logs and plants were right, and how often a wrong delay was sure."""
    found = [one for one in records if one.role == role and "truth" in one.results]
    names = {one.benchmark for one in found}
    whole = [name for name in names if all(_right(one) for one in found if one.benchmark == name)]
    right, sure = sum(map(_right, found)), [one for one in found if one.results["sure"]]
    return (
        f"Delays were right in {right} of {len(found)} logs, and in all logs of {len(whole)} of {len(names)} "
        f"plants. {len(sure)} were sure; {sum(not _right(one) for one in sure)} of these were wrong."
    )


def main() -> None:
    """Make the runs without a record and print them."""
    parser = argparse.ArgumentParser(prog="python -m studies.lags", description=__doc__)
    parser.add_argument("--role", choices=get_args(Role), default="development")
    parser.add_argument("--logs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    version = code_version("src/nopg/models", "studies/lag_plants.py")
    done = {
        (one.benchmark, one.method, one.role, one.seed)
        for one in read(FOLDER, STUDY)
        if one.commit == version
    }
    for case in _cases(options.role, options.logs):
        if (case.benchmark, case.method, case.role, case.seed) not in done:
            record = case.run()
            append(record, FOLDER)
            found, truth = record.results, record.results.get("truth", "")
            say(
                f"{case.benchmark} {case.method} {case.seed}: {'right' if _right(record) else 'WRONG'}, "
                f"{'sure' if found['sure'] else 'not sure'}, true {truth}, found {found['delays']}, "
                f"lags {found['lags']}"
            )
    say(_summary([one for one in read(FOLDER, STUDY) if one.commit == version], options.role))


if __name__ == "__main__":
    main()
