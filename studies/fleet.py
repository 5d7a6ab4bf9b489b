"""Fifty two-tank plants of a kind: one pass over their rows, and a controller for one with few of them."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import nopg
from nopg import Transitions
from nopg._seeding import generator
from nopg.data.io import write_parquet
from nopg.envs import ControlLaw, TwoTanks, collect, simulate
from nopg.large_logs import Fleet, LogSummary, summarize_fleet
from studies.plants.laws import level_controller
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table

_PLANTS, _ROWS, _FEW_ROWS, _EPISODE = 50, 5_000, 100, 50
_VARIED = ("upper_area", "lower_area", "upper_outlet", "lower_outlet", "pump_gain")
_VARIATION, _BLOCKED = 0.2, 0.5
# Every plant of the family can hold these levels.
_SET_POINTS = (4.0, 8.0)
# Standard deviation of the dither in V.
_DITHER = 1.0
_DISCOUNT, _STEPS, _STARTS = 0.95, 120, 200
_NEW, _DEFECT = "p07", "p23"
_TOLERANCE = 0.1
_METHODS = ("5 000 own rows", "100 rows, pooled", "100 rows alone", "fleet's mean", "logged PI")
_INTRODUCTION = f"""# Many plants of a kind

Made by `python -m studies page fleet` from `results/studies/fleet.jsonl`; do not edit. Fleets of {_PLANTS}
two-tank plants with cross-sections, outlets and pump gains within ±20 % of the nominal ones, {_ROWS} rows
each in episodes of {_EPISODE} steps under the PI controller of the nominal plant with dither of
{_DITHER:g} V. One plant has {_FEW_ROWS} rows; the pump of another is half blocked. One pass over
Parquet files (`summarize_fleet`), then `nopg.optimize` for the plant with {_FEW_ROWS} rows,
γ = {_DISCOUNT:g}. Discounted returns are those of the true plant from {_STARTS} starts of its own. What was
predicted is for the starts of all plants, which training used: the two are no test of the interval. The rule
for plants that stand out was chosen on fleets with seeds from 100 on, with half-blocked pumps or outlets, or
no defect.
"""


@dataclass(frozen=True, slots=True)
class _Tanks:
    """A fleet: the plants by name."""

    plants: Mapping[str, TwoTanks]
    seed: int

    @classmethod
    def of(cls, seed: int) -> _Tanks:
        draws = torch.rand(_PLANTS, len(_VARIED), dtype=torch.float64, generator=generator(seed, "plants"))
        factors = (1.0 - _VARIATION + 2.0 * _VARIATION * draws).tolist()
        nominal, plants = TwoTanks(), dict[str, TwoTanks]()
        for number, own in enumerate(factors):
            values = {name: getattr(nominal, name) * k for name, k in zip(_VARIED, own, strict=True)}
            if (name := f"p{number:02d}") == _DEFECT:
                values["pump_gain"] = _BLOCKED * nominal.pump_gain
            plants[name] = TwoTanks(set_points=_SET_POINTS, **values)
        return cls(plants, seed)

    def log(self, name: str, rows: int) -> Transitions:
        """Return the first rows of the log of a plant."""
        number = 1_000 * self.seed + list(self.plants).index(name)
        law, rng = _logged(), generator(number, "dither")

        def act(states: torch.Tensor) -> torch.Tensor:
            dither = _DITHER * torch.randn(len(states), 1, dtype=torch.float64, generator=rng)
            return (torch.as_tensor(law(states)) + dither).clamp(0.0, 10.0)

        data = collect(self.plants[name], act, episodes=_ROWS // _EPISODE, steps=_EPISODE, seed=number)
        return replace(data.take(torch.arange(rows)), initial_states=None)

    def write(self, folder: Path) -> Path:
        """Write a Parquet file for each plant."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in self.plants:
            file = folder / f"{name}.parquet"
            write_parquet(self.log(name, _FEW_ROWS if name == _NEW else _ROWS), file)
            rows = pq.read_table(file)
            pq.write_table(rows.append_column("plant", pa.array([name] * rows.num_rows)), file)
        return folder

    def true_return(self, name: str, law: ControlLaw) -> float:
        """Return the mean discounted return of a controller on a plant."""
        plant = self.plants[name]
        starts = plant.initial(_STARTS, rng=generator(self.seed, "test starts"))
        runs = simulate(plant, law, steps=_STEPS, initial_states=starts)
        return float(runs.discounted_returns(_DISCOUNT).mean())


def _logged() -> ControlLaw:
    return level_controller(TwoTanks(set_points=_SET_POINTS))


def _blank(job: tuple[int, str]) -> Record:
    seed, role = job
    return Record(study="fleet", benchmark="two-tanks", role=role, seed=seed, commit=code_version("src/nopg"))


def _run(job: tuple[int, str]) -> list[Record]:
    """Return the records of one fleet: the report on its plants, and each controller of the new plant."""
    seed, blank = job[0], _blank(job)
    tanks = _Tanks.of(seed)
    with tempfile.TemporaryDirectory() as folder:
        tanks.write(Path(folder))
        began = time.process_time()
        fleet = summarize_fleet(folder, plant="plant", workers=1, progress=False)
    summed = time.process_time() - began
    own = fleet.plant(_NEW)
    starts = own.sample.starts
    sources: dict[str, Transitions | LogSummary] = {
        "5 000 own rows": tanks.log(_NEW, _ROWS).starting_at(starts),
        "100 rows, pooled": own,
        "100 rows alone": tanks.log(_NEW, _FEW_ROWS).starting_at(starts),
        "fleet's mean": fleet.summary(),
    }
    logged = tanks.true_return(_NEW, _logged())
    records = [replace(blank, method="logged PI", discounted=logged)]
    for method, source in sources.items():
        found, cpu = _trained(source)
        value = tanks.true_return(_NEW, found.policy)
        facts = {"interval": found.interval, "verdict": found.evaluation.verdict}
        records.append(replace(blank, method=method, discounted=value, summary=facts, cpu_seconds=cpu))
    results = _reported(fleet) | {"summing_seconds": round(summed, 1)}
    return [*records, replace(blank, method="report", results=results)]


def _trained(source: Transitions | LogSummary) -> tuple[nopg.TrainingResult, float]:
    began = time.process_time()
    found = nopg.optimize(source, _DISCOUNT, config=nopg.TrainingConfig(progress=False))
    return found, round(time.process_time() - began, 1)


def _reported(fleet: Fleet) -> dict[str, Any]:
    """Return what the report says of the plants."""
    began = time.process_time()
    report, pool = fleet.report().sort_values("score", ascending=False), fleet.pool(_NEW)
    return {
        "standing_out": report.index[report["stands_out"]].tolist(),
        "scores": report["score"][:3].round(2).to_dict(),
        "own_error": pool.own_error,
        "pooled_error": pool.pooled_error,
        "fleet_error": pool.fleet_error,
        "fraction": round(float(report.loc[_NEW, "others"]), 3),
        "alike": {name: round(weight, 3) for name, weight in pool.weights.items()},
        "report_seconds": round(time.process_time() - began, 1),
    }


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    chosen = [one for one in last_of_each(records) if one.role == "report"]
    return f"{_INTRODUCTION}\n{_result(chosen)}\n"


def _result(records: Sequence[Record]) -> str:
    """Return the tables of returns and of plants that stand out, and whether both demands are met."""
    by_seed: dict[int, dict[str, Record]] = {}
    for one in records:
        by_seed.setdefault(one.seed, {})[one.method] = one
    returns, plants, losses = list[list[str]](), list[list[str]](), list[float]()
    for seed, found in sorted(by_seed.items()):
        full, pooled = (_discounted(found[method]) for method in _METHODS[:2])
        losses.append((full - pooled) / abs(full))
        predicted = "{:.4g} … {:.4g}".format(*found["100 rows, pooled"].summary["interval"])
        returns.append(
            [
                str(seed),
                *(f"{_discounted(found[method]):.4g}" for method in _METHODS),
                f"{losses[-1]:+.1%}",
                predicted,
            ]
        )
        told = found["report"].results
        errors = [f"{told[name]:.3g}" for name in ("own_error", "pooled_error", "fleet_error")]
        odd, scores = told["standing_out"], ", ".join(f"{k} {v}" for k, v in told["scores"].items())
        plants.append([str(seed), ", ".join(odd) or "none", scores, *errors, f"{told['fraction']:.0%}"])
    near = sum(loss <= _TOLERANCE for loss in losses)
    named = [found["report"].results["standing_out"] for found in by_seed.values()]
    first = sum(names[:1] == [_DEFECT] for names in named)
    others = sum(name != _DEFECT for names in named for name in names)
    heads = ("seed", "stands out", "largest scores", "own error", "pooled", "fleet's mean", "share of others")
    return "\n".join(
        [
            *table(("seed", *_METHODS, "pooled below 5 000 rows", "predicted, pooled"), returns),
            "",
            f"The pooled controller is within {_TOLERANCE:.0%} of that from 5 000 own rows in {near} of "
            f"{len(losses)} fleets.",
            "",
            *table(heads, plants),
            "",
            f"The plant with the defect, {_DEFECT}, is named, as the oddest, in {first} of {len(losses)} "
            f"fleets; {others} other plants of {(_PLANTS - 1) * len(losses)} are named as well. "
            "Errors are those of the plant with 100 rows, in standard deviations of a step.",
        ]
    )


def _discounted(record: Record) -> float:
    return float("nan") if record.discounted is None else record.discounted


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=seeds_of, default=(100,), help="such as 0-4")
    parser.add_argument("--role", choices=("development", "report"), default="development")


FLEET = Study(
    name="fleet",
    about="fifty plants of a kind: a controller for one that has 100 rows, and the one with a defect",
    arguments=_arguments,
    jobs=lambda given: [(seed, given.role) for seed in given.seeds],
    run=_run,
    blank=_blank,
    key=lambda record: (record.seed, record.role),
    page=page,
    file="studies/pages/fleet.md",
)
