"""Off-policy evaluation of published PID gains on DMSD of NeoRL-2, beside FQE. A report: run once."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from nopg import Transitions
from nopg.baselines._d3rlpy import isolated, to_d3rlpy
from nopg.errors import DataError
from nopg.evaluation import OfflineEvaluator
from studies.neorl2_tasks import MASSES_STEP, TASKS, Array
from studies.records import Record, code_version, last_of_each
from studies.study import Study, table

# Fixed before the first run. Rows, discount and columns as in the study of NeoRL-2; the true returns are
# discounted too.
_ROWS, _DISCOUNT = 2_000, 0.97
# Of 1 030 published gain sets these are drawn; FQE, which is slow, judges the first of them.
_SETS, _SEED, _SETS_OF_FQE, _UPDATES = 60, 0, 12, 10_000
# The memory of the PID loops: Σe·Δt before the row, and e one row before, 0 at first.
_MEMORY = {f"total{k}": ("0", f"total{k} + {MASSES_STEP} * (g{k} - x{k})") for k in (1, 2)}
_MEMORY |= {f"last{k}": ("0", f"0 * last{k} + g{k} - x{k}") for k in (1, 2)}


def _drawn(folder: Path) -> list[dict[str, Any]]:
    path = folder / "DMSD-pid-returns.jsonl"
    if not path.exists():
        raise DataError(f"{path} does not exist; studies/data.md says where it is from")
    sets = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [sets[k] for k in np.random.default_rng(_SEED).permutation(len(sets))[:_SETS]]


def _law(gains: dict[str, float]) -> Any:
    """Return the PID law on states x, v, g, total, last, each a pair of columns."""
    p, i, d = (torch.tensor([gains[f"{one}1"], gains[f"{one}2"]], dtype=torch.float64) for one in "pid")

    def law(states: Any) -> torch.Tensor:
        s = torch.as_tensor(states, dtype=torch.float64)
        e = s[:, 4:6] - s[:, :2]
        return (p * e + i * (s[:, 6:8] + e * MASSES_STEP) + d * (e - s[:, 8:]) / MASSES_STEP).clamp(-1.0, 1.0)

    return law


def _true_return(gains: dict[str, float]) -> float:
    """Return the mean discounted return on the plant of the simulator."""
    law, memory = _law(gains), np.zeros((TASKS["DMSD"].episodes, 4))

    def act(states: Array) -> Array:
        nonlocal memory
        force, error = law(np.concatenate([states, memory], axis=1)).numpy(), states[:, 4:] - states[:, :2]
        memory = np.concatenate([memory[:, :2] + MASSES_STEP * error, error], axis=1)
        return np.asarray(force)

    rewards = TASKS["DMSD"].rewards(act, TASKS["DMSD"].states)
    return float(_DISCOUNT ** np.arange(len(rewards)) @ rewards.mean(axis=1))


def _by_fqe(data: Transitions, law: Any) -> float:
    """Return the value that fitted Q evaluation gives to the logged starts."""
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.models import VectorEncoderFactory
    from d3rlpy.ope import FQE, FQEConfig
    from d3rlpy.preprocessing import StandardObservationScaler, StandardRewardScaler

    mean, std = data.states.mean(dim=0).numpy(), data.states.std(dim=0).numpy()
    scaler = StandardObservationScaler(mean=mean, std=std)
    rewards = StandardRewardScaler(mean=0.0, std=float(data.rewards.std()))
    seen = SimpleNamespace(predict_best_action=lambda x: law(scaler.reverse_transform(x)).float())
    with isolated(0):
        config = FQEConfig(
            gamma=_DISCOUNT,
            learning_rate=3e-4,
            encoder_factory=VectorEncoderFactory(hidden_units=[64, 64]),
            observation_scaler=scaler,
            reward_scaler=rewards,
        )
        fqe = FQE(algo=SimpleNamespace(impl=seen), config=config)
        fqe.fit(
            to_d3rlpy(data),
            n_steps=_UPDATES,
            n_steps_per_epoch=_UPDATES,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )
        starts = data.starts
        values = fqe.predict_value(starts.numpy().astype(np.float32), law(starts).numpy().astype(np.float32))
    return float(np.mean(values)) * float(data.rewards.std())


def _blank(job: tuple[Path, str, str]) -> Record:
    _, method, cost = job
    commit = code_version("src/nopg", "studies/pid_gains.py")
    options = {"cost": cost}
    return Record(
        study="pid-gains",
        benchmark="DMSD",
        method=method,
        rows=_ROWS,
        commit=commit,
        role="report",
        options=options,
    )


def _run(job: tuple[Path, str, str]) -> list[Record]:
    folder, method, cost = job
    drawn, began = _drawn(folder), time.process_time()
    laws = [_law(one["params"]) for one in drawn]
    data = TASKS["DMSD"].log(folder, _ROWS, stated=cost == "stated").derive(formulas=_MEMORY)
    found: dict[str, Any] = {}
    if method == "simulator":
        found["returns"] = [_true_return(one["params"]) for one in drawn]
        found["published"] = [one["target"] for one in drawn]
    elif method == "FQE":
        found["returns"] = [_by_fqe(data, law) for law in laws[:_SETS_OF_FQE]]
    else:
        evaluator = OfflineEvaluator(data, _DISCOUNT)
        judged = [evaluator.assess(law) for law in laws]
        found = {"returns": [one.expected_return for one in judged]}
        found |= {"intervals": [one.interval for one in judged], "verdicts": [one.verdict for one in judged]}
        found["reasons"] = sorted({reason for one in judged for reason in one.reasons})
    seconds = round(time.process_time() - began, 1)
    return [replace(_blank(job), cpu_seconds=seconds, results=found)]


def _row(one: Record, truth: Record, count: int) -> tuple[str, ...]:
    """Return what a method says of the first gain sets, beside the true returns."""
    said, true = (np.array(record.results["returns"][:count]) for record in (one, truth))
    rank, listed = float(spearmanr(said, true).statistic), float(np.abs(said - true).mean())
    regrets = [float(true.max() - true[np.argsort(-said)[:k]].max()) for k in (1, 5)]
    verdicts, inside = one.results.get("verdicts", [])[:count], "—"
    if verdicts:
        ends = np.array(one.results["intervals"][:count])
        holds, sure = (ends[:, 0] <= true) & (true <= ends[:, 1]), np.array(verdicts) == "ok"
        inside = f"{(holds & sure).sum()} of {sure.sum()} `ok`, {holds.sum()} of {count} in all"
    shares = ", ".join(f"{verdicts.count(name)} {name}" for name in ("ok", "weak", "not identifiable"))
    cells = (f"{rank:.2f}", f"{listed:.1f}", *(f"{regret:.1f}" for regret in regrets))
    each = one.cpu_seconds / len(one.results["returns"])
    return (
        f"{one.method}, {one.options['cost']}",
        str(count),
        *cells,
        inside,
        shares if verdicts else "—",
        f"{each:.1f}",
    )


def _page(records: Sequence[Record]) -> str:
    found = {(one.method, one.options["cost"]): one for one in last_of_each(records)}
    truth = found.pop(("simulator", "stated"))
    rows = [
        _row(one, truth, count)
        for count in (_SETS, _SETS_OF_FQE)
        for one in found.values()
        if len(one.results["returns"]) >= count
    ]
    episodes = TASKS["DMSD"].episodes
    true, published = (np.array(truth.results[name]) for name in ("returns", "published"))
    heads = ["method, cost", "gain sets", "rank correlation", "absolute error", "regret@1", "regret@5"]
    heads += ["true return in the interval", "verdicts", "CPU s each"]
    return "\n".join(
        [
            "# Off-policy evaluation of PID gains",
            "",
            "Made by `python -m studies page pid-gains` from `results/studies/pid-gains.jsonl`; the runs by",
            "`python -m studies pid-gains --data FOLDER` with the public data of [data.md](../data.md).",
            f"{_SETS} of the 1 030 PID gain sets of DMSD (NeoRL-2), drawn by a fixed seed, judged from",
            f"the first {_ROWS} rows of the data. Mean discounted return (γ = {_DISCOUNT}), cost stated",
            f"or as a column. The true returns, from {episodes} episodes of the simulator, lie between",
            f"{true.min():.0f} and {true.max():.0f}; their rank correlation with the published returns is",
            f"{float(spearmanr(true, published).statistic):.3f}. FQE is that of d3rlpy, {_UPDATES} updates.",
            "Regret@k: how much the best of the k sets with the highest predictions falls short of the best.",
            "",
            *table(heads, rows),
            "",
            "Reasons, stated cost:",
            "",
            *(f"- {reason}" for reason in found["nopg", "stated"].results["reasons"]),
            "",
        ]
    )


PID_GAINS = Study(
    name="pid-gains",
    about="off-policy evaluation of published PID gains on DMSD",
    arguments=lambda parser: parser.add_argument("--data", required=True, type=Path, help="folder of DMSD-*"),
    jobs=lambda given: [
        (given.data, *one)
        for one in (("simulator", "stated"), ("nopg", "stated"), ("nopg", "column"), ("FQE", "column"))
    ],
    run=_run,
    blank=_blank,
    page=_page,
    file="studies/pages/pid-gains.md",
)
