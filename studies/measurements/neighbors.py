"""Speed of the neighbour searches: CPU time on one thread, which compares on a machine with other load."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from nopg._seeding import generator
from nopg.neighbors import FaissIndex, NeighborSearch, neighbor_search
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._choice import growth_dimension
from nopg.neighbors._faiss import lost_mass
from nopg.neighbors._tree import NeighborTree
from studies.markdown import table
from studies.records import Record

__all__ = ["measure", "page"]

_COUNT = 32
_DIMENSIONS = (3, 6, 8, 10, 12, 17)
_SIZES = (10_000, 100_000)
_MILLION = 1_000_000
_MILLION_DIMENSIONS = (10, 17)
_PROBES = (16, 32, 64, 128, 256, 512)
_PROBE_QUERIES = 1_000
_EPISODE = 200

_POWERS = {10_000: "10⁴", 100_000: "10⁵", 1_000_000: "10⁶"}
_EXACT = {"NeighborTree": "tree", "BruteForce": "brute"}
_WORDS = {"NeighborTree": "tree", "BruteForce": "brute force", "FaissIndex": "faiss, judged"}


def _trajectories(n: int, d: int, *, purpose: str) -> torch.Tensor:
    """Return n states of a random agent on x⁺ = Ax + Bu, the system depending on d alone."""
    system, noise = generator(d, "system"), generator(d, purpose)
    A = torch.randn(d, d, dtype=torch.float64, generator=system)
    A *= 0.98 / float(torch.linalg.eigvals(A).abs().max())
    B = torch.randn(d, max(1, d // 3), dtype=torch.float64, generator=system)

    state = torch.randn(-(-n // _EPISODE), d, dtype=torch.float64, generator=noise)
    states = []
    for _ in range(_EPISODE):
        states.append(state)
        inputs = torch.randn(len(state), B.shape[1], dtype=torch.float64, generator=noise)
        state = state @ A.T + 0.3 * inputs @ B.T
    return torch.stack(states, dim=1).flatten(end_dim=1)[:n]


def _uniform(n: int, d: int, *, purpose: str) -> torch.Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=generator(d, purpose))


_DATA: dict[str, Callable[..., torch.Tensor]] = {"trajectories": _trajectories, "uniform": _uniform}


def _case(name: str, n: int, d: int, num_queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points and queries in units in which the median query has its nearest point at distance 2."""
    points = _DATA[name](n, d, purpose="points")
    # Episodes of their own: next states among the points would be found by any search.
    others = _DATA[name](max(num_queries, 100 * _EPISODE), d, purpose="queries")
    queries = others[torch.randperm(len(others), generator=generator(d, "rows"))[:num_queries]]
    scale = points.std(dim=0)
    points, queries = points / scale, queries / scale
    width = 0.5 * float(BruteForce(points).nearest(queries, 1)[0].median())
    return points / width, queries / width


def _seconds(task: Callable[[], object], *, budget: float = 2.0) -> float:
    """Return the CPU time of the best of three runs, or of fewer where they take long."""
    taken: list[float] = []
    while len(taken) < 3 and sum(taken) < budget:
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return min(taken)


def _faiss_flat(points: torch.Tensor) -> Callable[[torch.Tensor], object]:
    import faiss

    faiss.omp_set_num_threads(1)
    center = points.mean(dim=0)
    index = faiss.IndexFlatL2(points.shape[1])
    index.add((points - center).float().numpy())
    return lambda queries: index.search((queries - center).float().numpy(), _COUNT)


def _time_case(name: str, n: int, d: int, num_queries: int) -> dict[str, Any]:
    points, queries = _case(name, n, d, num_queries)

    def microseconds(search: Callable[[torch.Tensor], object]) -> float:
        return 1e6 / num_queries * _seconds(lambda: search(queries))

    def ours(search: NeighborSearch) -> float:
        return microseconds(lambda rows: search.nearest(rows, _COUNT))

    index = FaissIndex(points)
    return {
        "data": name,
        "n": n,
        "d": d,
        "growth": growth_dimension(BruteForce(points)),
        "tree": ours(NeighborTree(points)),
        "brute": ours(BruteForce(points)),
        "flat": microseconds(_faiss_flat(points)),
        "lists": microseconds(lambda rows: index.probe(rows, _COUNT)),
        "auto": type(neighbor_search(points)).__name__,
    }


def _probe_case(name: str, n: int, d: int, num_queries: int) -> dict[str, Any]:
    points, queries = _case(name, n, d, num_queries)
    brute = BruteForce(points)
    exact, true = brute.nearest(queries, _COUNT)
    row: dict[str, Any] = {"data": name, "n": n, "d": d, "probes": []}
    row["brute"] = 1e6 / num_queries * _seconds(lambda: brute.nearest(queries, _COUNT))
    start = time.process_time()
    index = FaissIndex(points)
    row["build"], row["lists"] = time.process_time() - start, index.num_lists
    for probes in _PROBES:
        index.num_probes = probes
        distances, found = index.probe(queries, _COUNT)
        lost = lost_mass(distances, exact)
        hits = [len(set(a) & set(b)) for a, b in zip(found.tolist(), true.tolist(), strict=True)]
        row["probes"].append(
            {
                "probes": probes,
                "time": 1e6 / num_queries * _seconds(lambda: index.probe(queries, _COUNT)),
                "recall": statistics.mean(hits) / _COUNT,
                "worst": float(lost.max()),
                "worst_percent": float(torch.quantile(lost, 0.99)),
                "losing": float((lost > index.tolerance).double().mean()),
            }
        )
    return row


def measure() -> Iterator[dict[str, Any]]:
    """Yield times of all searches, then the lists of faiss."""
    torch.set_num_threads(1)
    cases = [(name, n, d, 1_000) for n in _SIZES for name in _DATA for d in _DIMENSIONS]
    cases += [(name, _MILLION, d, 200) for name in _DATA for d in _MILLION_DIMENSIONS]
    probes = [(name, n, 17, _PROBE_QUERIES) for n in (_SIZES[-1], _MILLION) for name in _DATA]
    for method, work, todo in (("times", _time_case, cases), ("probes", _probe_case, probes)):
        for name, n, d, queries in todo:
            results = work(name, n, d, queries)
            yield {"benchmark": f"{name}, {d} columns", "method": method, "rows": n, "results": results}


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    times, probes = ([r.results for r in records if r.method == method] for method in ("times", "probes"))
    lines = [
        "# Neighbours: which search is fastest where",
        "",
        "Made by `python -m studies page neighbors` from `results/studies/neighbors.jsonl`; do not edit. "
        f"Microseconds of CPU time per query for the {_COUNT} nearest, one thread, best of up to three runs, "
        "everything in one run; building is left out. Trajectories are those of a random agent on a random "
        "linear system, with queries from other episodes; uniform points fill a box.",
        "",
        *_exact_search(times),
        *_lists(probes),
    ]
    return "\n".join(lines) + "\n"


def _exact_search(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    taken = [row for row in rows if row["auto"] in _EXACT]
    worst = max(row[_EXACT[row["auto"]]] / min(row["tree"], row["brute"]) for row in taken)
    limits = ", ".join(f"{math.log(n, 4):.1f} for n = {_POWERS[n]}" for n in _POWERS)
    cells = [
        (
            row["data"],
            _POWERS[row["n"]],
            f"{row['d']}",
            f"{row['growth']:.1f}",
            *(f"{row[search]:.0f}" for search in ("tree", "brute", "flat")),
            _WORDS[row["auto"]],
            f"{row['lists']:.0f}",
        )
        for row in rows
    ]
    heads = ["data", "n", "columns", "D", "tree", "brute force", "faiss Flat", "`auto` takes", "faiss lists"]
    return [
        "## Exact search",
        "",
        "D is `growth_dimension`: how many dimensions the points fill. `auto` takes the tree where n ≥ 4ᴰ, "
        f"that is up to D = {limits}. In the {len(taken)} rows in which it takes tree or brute force, that "
        f"needs at most {worst:.2f} times as long as the faster of the two. The last column is not exact: 64 "
        "lists per query, unjudged.",
        "",
        *table(heads, cells),
        "",
    ]


def _lists(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Lists, judged by the ψ-mass they find"
    yield ""
    yield (
        "17 columns, in a unit in which the median query has its nearest point two bandwidths away. Lost is "
        "the share of the ψ-mass of its true nearest that a query did not find: the worst of "
        f"{_PROBE_QUERIES} queries, the 99th percentile, and how many of 100 lost over 10⁻³. `FaissIndex` "
        "doubles its lists until the worst of those it judges is below 10⁻³, and searches exactly where that "
        "would take more than an eighth of all lists."
    )
    heads = ["lists per query", "share", "µs", "recall", "worst lost", "99th percentile", "lose over 10⁻³"]
    for case in cases:
        yield ""
        yield (
            f"### {case['data'].capitalize()}, n = {_POWERS[case['n']]}: {case['lists']} lists, built in "
            f"{case['build']:.1f} s; brute force takes {case['brute']:.0f} µs"
        )
        yield ""
        rows = [
            (
                f"{probed['probes']}",
                f"{probed['probes'] / case['lists']:.3f}",
                f"{probed['time']:.0f}",
                f"{probed['recall']:.4f}",
                f"{probed['worst']:.1e}",
                f"{probed['worst_percent']:.1e}",
                f"{100 * probed['losing']:.1f} %",
            )
            for probed in case["probes"]
        ]
        yield from table(heads, rows)
