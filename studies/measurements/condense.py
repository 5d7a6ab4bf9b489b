"""What a dataset loses when it is condensed: Ĵ and policy gradient of the paper's model on fewer rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from nopg._seeding import generator
from nopg.bellman import PaperProblem, solution_gradient
from nopg.data import Transitions
from nopg.envs import MountainCar, Pendulum, collect, collect_uniform
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import PaperModel
from nopg.policies import MLPPolicy
from studies.markdown import table
from studies.paper_data import MixtureOfGaussians
from studies.records import Record

__all__ = ["measure", "page"]

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
    return float(model.node_queries.candidates.log_psi.exp().sum(dim=1).median())


def measure() -> Iterator[dict[str, Any]]:
    """Yield the errors of all datasets, sizes and methods; the seed numbers the random subsets."""
    torch.set_num_threads(1)
    for name, make in _DATASETS.items():
        data = make()
        some = torch.randperm(_ROWS, generator=generator(0, "starts"))[:_STARTS]
        data = data.starting_at(data.states[some])
        question, h = _Question(data), select_bandwidths(data)
        truth = question.answers(data, h)
        results = {"rows per bandwidth": _rows_per_bandwidth(data, h), "return": [J for J, _ in truth]}
        yield {"benchmark": name, "rows": _ROWS, "method": "all", "results": results}
        for rows in _SIZES:
            before = time.process_time()
            few = data.condense(rows)
            seconds = {"seconds": time.process_time() - before}
            tried = [("condensed", 0, few)]
            tried += [("random subset", seed, _random_subset(data, rows, seed)) for seed in range(_SUBSETS)]
            for method, seed, left in tried:
                found = {"rows per bandwidth": _rows_per_bandwidth(left, h)} | (
                    seconds if left is few else {}
                )
                for suffix, bandwidths in (("", h), (", h anew", select_bandwidths(left))):
                    errors = _errors(question.answers(left, bandwidths), truth)
                    results = {**found, **errors}
                    case = {"benchmark": name, "rows": rows, "seed": seed, "method": method + suffix}
                    yield {**case, "results": results}


_FIGURES = ("return", "gradient", "cosine")
_METHODS = ("random subset", "condensed", "random subset, h anew", "condensed, h anew")


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    slowest = max(record.results.get("seconds", 0.0) for record in records)
    lines = [
        "# Condensed data: what fewer rows lose",
        "",
        "Made by `python -m studies page condense` from `results/studies/condense.jsonl`; do not edit. Ĵ and "
        f"policy gradient of the paper's model on fewer rows against those on all {_ROWS} rows: medians over "
        f"{_POLICIES} untrained policies from {_STARTS} states of the data, γ = {_DISCOUNT}; for random "
        f"subsets, whose rows weigh n/m, over {_SUBSETS} draws too. Bandwidths h are those of all rows, or "
        "selected anew on the fewer ones.",
        "",
        "*Rows per bandwidth* is Σψ at the median next state, with the bandwidths of all rows: the number of "
        "remaining rows within a bandwidth on states. Down to about one, condensed rows err "
        "less than as many random ones. Below that there are holes between the rows, and neither keeps the "
        "gradient; bandwidths selected anew then keep Ĵ, and of the gradient the direction rather than the "
        "length. Data without noise have narrow bandwidths, hence few rows to spare. Condensing took at most "
        f"{slowest:.2f} s.",
    ]
    heads = ["rows", "rows per bandwidth", "method", "error of Ĵ", "error of the gradient", "cosine"]
    for name in dict.fromkeys(record.benchmark for record in records):
        mine = [record for record in records if record.benchmark == name]
        (whole,) = (record for record in mine if record.method == "all")
        all_rows = (f"{_ROWS}", f"{whole.results['rows per bandwidth']:.1f}", "all", "", "", "")
        fewer = [_row(mine, rows, method) for rows in _SIZES for method in _METHODS]
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", *table(heads, [all_rows, *fewer])]
    return "\n".join(lines) + "\n"


def _row(records: Sequence[Record], rows: int, method: str) -> tuple[str, ...]:
    chosen = [record.results for record in records if (record.rows, record.method) == (rows, method)]
    per_bandwidth = statistics.median(results["rows per bandwidth"] for results in chosen)
    J, g, cosine = (statistics.median(x for results in chosen for x in results[key]) for key in _FIGURES)
    shown = (f"{100 * J:.2f} %", f"{100 * g:.0f} %", f"{cosine:.3f}".replace("-", "−"))
    return (f"{rows}", f"{per_bandwidth:.1f}", method, *shown)
