"""Errors against exact references; the tests hold the same functions to the same limits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from studies.markdown import table
from studies.paper.bias import printed_regression_bias_bound, regression_bias_bound
from studies.records import ROOT, Record

__all__ = ["measure", "page"]

sys.path.insert(0, str(ROOT / "tests"))  # the cases are those of the tests


def measure() -> Iterator[dict[str, Any]]:
    """Yield all figures: `required`, `measured` and whether the figure is `kept`."""
    yield from _errors()
    yield from _certificates()
    yield from _edges()
    yield from _bias()


def _figure(section: str, name: str, required: str, measured: str, kept: bool) -> dict[str, Any]:
    results = {"required": required, "measured": measured, "kept": bool(kept)}
    return {"benchmark": section, "method": name, "results": results}


def _errors() -> Iterator[dict[str, Any]]:
    from kernels.bandwidth_cases import selected_bandwidth_invariances
    from reference import problem_cases as cases

    for section, errors, limit in (
        ("Gradient against central finite differences", cases.gradient_vs_finite_differences, 1e-6),
        (
            "Gradient against autograd through a dense solve of the same truncated objective",
            cases.gradient_vs_autograd,
            1e-10,
        ),
        ("K = n against an independent dense reference", cases.dense_agreement, 1e-10),
        ("Invariances for given bandwidths: Ĵ, q, gradient", cases.invariances, 1e-8),
        ("Invariances of the selected bandwidths", selected_bandwidth_invariances, 1e-4),
    ):
        for name, error in errors().items():
            yield _figure(section, name, f"≤ {limit:.0e}", f"{error:.1e}", error <= limit)


def _certificates() -> Iterator[dict[str, Any]]:
    from reference.problem_cases import certificate_cases, return_certificate_cases

    for name, counts in (
        ("random systems against exact rational arithmetic", certificate_cases()),
        ("Ĵ of random problems against exact rational arithmetic", return_certificate_cases()),
    ):
        violations = {what: count for what, count in counts.items() if what not in {"cases", "certificates"}}
        shown = f"{counts['cases']} cases; violated: " + ", ".join(f"{k} {n}" for k, n in violations.items())
        section = "Certificates: proven bound ≥ true error"
        yield _figure(section, name, "none violated", shown, not any(violations.values()))


def _edges() -> Iterator[dict[str, Any]]:
    from reference.problem_cases import edge_cases

    section = "Edges: a finite, documented answer or a named error"
    for name, answer in edge_cases().items():
        yield _figure(section, name, "finite or a named error", answer, True)


def _bias() -> Iterator[dict[str, Any]]:
    """Compare both forms of the bounds with the two counter-examples of decision record 5."""
    from paper.bias_cases import corrected_value_bound, printed_value_bound, regression_bias, steep_world

    section = "Bias bounds: the printed ones are exceeded, the corrected ones hold"
    order = "printed < true bias ≤ corrected"
    bias = regression_bias(
        lambda x: np.abs(x[..., 0]),
        lambda x: np.zeros(x.shape[:-1]),
        query=np.zeros(1),
        bandwidth=np.array([0.1]),
        reach=8.0,
        nodes_per_bandwidth=100,
    )
    printed = printed_regression_bias_bound(lipschitz=1.0, log_lipschitz=0.0, bandwidth=[0.1])
    corrected = regression_bias_bound(lipschitz=1.0, log_lipschitz=0.0, bandwidth=[0.1])
    # |x| meets the bound exactly; the quadrature of the bias errs by 10⁻⁴ of it.
    kept = printed < bias <= corrected * (1 + 1e-4)
    shown = f"{printed:.4f} < {bias:.4f} ≤ {corrected:.4f}"
    yield _figure(section, "regression of |x|, h = .1", order, shown, kept)

    world = steep_world()
    solution = world.solve()
    error = abs(float(np.interp(0.0, solution.states, solution.estimated)))
    printed, corrected = printed_value_bound(world, solution), corrected_value_bound(world, solution)
    shown = f"{printed:.2f} < {error:.2f} ≤ {corrected:.2f}"
    name = "value where s′ = 10a, r = −|s|, π = 0, h = .1, γ = .9"
    yield _figure(section, name, order, shown, printed < error <= corrected)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/paper/test_bias.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    last = run.stdout.strip().splitlines()[-1].strip("= ")
    yield _figure(section, "property tests of the corrected bounds", "all pass", last, run.returncode == 0)


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    setup = records[-1].setup["versions"]
    lines = [
        "# Correctness",
        "",
        "Made by `python -m studies page correctness` from `results/studies/correctness.jsonl`; do not edit. "
        f"Python {setup['python']}, torch {setup['torch']}. The tests hold all rows to the same limits.",
        "",
    ]
    for section in dict.fromkeys(record.benchmark for record in records):
        rows = [
            (r.method, *(r.results[name] for name in ("required", "measured")), _verdict(r))
            for r in records
            if r.benchmark == section
        ]
        lines += [f"## {section}", "", *table(("figure", "must be", "measured", ""), rows), ""]
    return "\n".join(lines)


def _verdict(record: Record) -> str:
    return "kept" if record.results["kept"] else "**missed**"
