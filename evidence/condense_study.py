"""What a dataset loses when it is condensed: `python -m evidence.condense_study` writes docs/condense.md.

Ĵ and the policy gradient of the paper's model on fewer rows, against those on all rows.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from evidence.study import run_study
from nopg._seeding import generator
from nopg.bellman import PaperProblem, solution_gradient
from nopg.data import Transitions
from nopg.envs import MixtureOfGaussians, MountainCar, Pendulum, collect, collect_uniform
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import PaperModel
from nopg.policies import MLPPolicy

_ROWS, _SIZES = 10_000, (5_000, 2_000, 1_000, 500, 200)
_DISCOUNT, _STARTS, _POLICIES, _SUBSETS = 0.97, 200, 4, 3
_NOISE = (0.1, 0.5)  # of next angle and velocity; that of the reward is 1

_Answers = list[tuple[float, torch.Tensor]]


def _noisy(data: Transitions) -> Transitions:
    rng = generator(0, "noise")
    states, rewards = (
        torch.randn(x.shape, dtype=x.dtype, generator=rng) for x in (data.states, data.rewards)
    )
    spread = torch.tensor(_NOISE, dtype=torch.float64)
    return replace(data, next_states=data.next_states + spread * states, rewards=data.rewards + rewards)


def _logged() -> Transitions:
    return collect(Pendulum(start="random"), MixtureOfGaussians(), episodes=20, steps=_ROWS // 20, seed=0)


_DATASETS: dict[str, Callable[[], Transitions]] = {
    "pendulum": lambda: collect_uniform(Pendulum(), _ROWS, seed=0),
    "pendulum with noise": lambda: _noisy(collect_uniform(Pendulum(), _ROWS, seed=0)),
    "pendulum, 20 episodes": _logged,
    "mountain car": lambda: collect_uniform(MountainCar(), _ROWS, seed=0),
}


def _random_subset(data: Transitions, rows: int, seed: int) -> Transitions:
    chosen = torch.randperm(len(data), generator=generator(seed, "random subset"))[:rows]
    weights = torch.full((rows,), len(data) / rows, dtype=torch.float64)
    return replace(data.take(chosen), weights=weights, episodes=None)


class _Question:
    """Ĵ and its gradient for a few untrained policies, from states of the data."""

    def __init__(self, data: Transitions) -> None:
        policies = (generator(seed, "policy") for seed in range(_POLICIES))
        self._policies = [MLPPolicy.from_data(data.features, data.actions, rng=rng) for rng in policies]
        self._unknown_value = float(data.rewards.min()) / (1.0 - _DISCOUNT)

    def answers(self, data: Transitions, bandwidths: Bandwidths) -> _Answers:
        problem = PaperProblem.build(
            PaperModel(data, bandwidths, prior_mass=1e-6),
            data.schema.encode(data.starts),
            discount=_DISCOUNT,
            unknown_value=self._unknown_value,
        )
        found = []
        for policy in self._policies:
            solution = problem.equation(policy, generator(0, "actions")).solve()
            found.append(
                (solution.expected_return, torch.cat([g.ravel() for g in solution_gradient(solution)]))
            )
        return found


def _errors(answers: _Answers, truth: _Answers) -> dict[str, list[float]]:
    pairs = list(zip(answers, truth, strict=True))
    return {
        "return": [abs(J - J_all) / abs(J_all) for (J, _), (J_all, _) in pairs],
        "gradient": [float((g - g_all).norm() / g_all.norm()) for (_, g), (_, g_all) in pairs],
        "cosine": [float(g @ g_all / (g.norm() * g_all.norm())) for (_, g), (_, g_all) in pairs],
    }


def _rows_per_bandwidth(data: Transitions, bandwidths: Bandwidths) -> float:
    """Return how many rows the median next state has within a bandwidth, Σψ, whatever they weigh."""
    model = PaperModel(replace(data, weights=None), bandwidths)
    return float(model.node_queries.support().median())


def _measure() -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    records: list[dict[str, Any]] = []
    for name, make in _DATASETS.items():
        data = make()
        some = torch.randperm(_ROWS, generator=generator(0, "starts"))[:_STARTS]
        data = data.starting_at(data.states[some])
        question, h = _Question(data), select_bandwidths(data)
        truth = question.answers(data, h)
        of_all = {"data": name, "rows": _ROWS, "rows per bandwidth": _rows_per_bandwidth(data, h)}
        records.append({**of_all, "method": "all", "return": [J for J, _ in truth]})
        for rows in _SIZES:
            before = time.process_time()
            few = data.condense(rows)
            seconds = time.process_time() - before
            tried = [("condensed", few)]
            tried += [("random subset", _random_subset(data, rows, seed)) for seed in range(_SUBSETS)]
            for method, left in tried:
                found = {"data": name, "rows": rows, "rows per bandwidth": _rows_per_bandwidth(left, h)}
                found |= {"seconds": seconds} if left is few else {}
                for suffix, bandwidths in (("", h), (", h anew", select_bandwidths(left))):
                    errors = _errors(question.answers(left, bandwidths), truth)
                    records.append({**found, "method": method + suffix, **errors})
                    figures = {key: round(statistics.median(errors[key]), 4) for key in _FIGURES}
                    print(name, rows, method + suffix, figures, flush=True)
    return records


_FIGURES = ("return", "gradient", "cosine")
_METHODS = ("random subset", "condensed", "random subset, h anew", "condensed, h anew")


def _markdown(records: list[dict[str, Any]]) -> str:
    slowest = max(row["seconds"] for row in records if "seconds" in row)
    lines = [
        "# Condensed data: what fewer rows lose",
        "",
        "Made by `python -m evidence.condense_study` from `results/condense.json`; do not edit. Ĵ and policy "
        f"gradient of the paper's model on fewer rows against those on all {_ROWS} rows: medians over "
        f"{_POLICIES} untrained policies from {_STARTS} states of the data, γ = {_DISCOUNT}; for random "
        f"subsets, whose rows weigh n/m, over {_SUBSETS} draws too. Bandwidths h are those of all rows, or "
        "selected anew on the fewer ones.",
        "",
        "*Rows per bandwidth* is Σψ at the median next state, with the bandwidths of all rows: how many of "
        "the rows that are left stand within a bandwidth on states. Down to about one, condensed rows err "
        "less than as many random ones. Below that there are holes between the rows, and neither keeps the "
        "gradient; bandwidths selected anew then keep Ĵ, and of the gradient the direction rather than the "
        "length. Data without noise have narrow bandwidths, hence few rows to spare. Condensing took at most "
        f"{slowest:.2f} s.",
    ]
    for name in dict.fromkeys(row["data"] for row in records):
        lines += ["", f"## {name[0].upper()}{name[1:]}", ""]
        lines += ["| rows | rows per bandwidth | method | error of Ĵ | error of the gradient | cosine |"]
        lines += ["|---|---|---|---|---|---|"]
        mine = [row for row in records if row["data"] == name]
        lines += [f"| {_ROWS} | {mine[0]['rows per bandwidth']:.1f} | all | | | |"]
        lines += [_line(mine, rows, method) for rows in _SIZES for method in _METHODS]
    return "\n".join(lines) + "\n"


def _line(records: list[dict[str, Any]], rows: int, method: str) -> str:
    chosen = [row for row in records if (row["rows"], row["method"]) == (rows, method)]
    per_bandwidth = statistics.median(row["rows per bandwidth"] for row in chosen)
    J, g, cosine = (statistics.median(x for row in chosen for x in row[figure]) for figure in _FIGURES)
    shown = f"{100 * J:.2f} % | {100 * g:.0f} % | {cosine:.3f}".replace("-", "−")
    return f"| {rows} | {per_bandwidth:.1f} | {method} | {shown} |"


if __name__ == "__main__":
    run_study("condense", _measure, _markdown, description=__doc__)
