"""The floor does the work of an update, the dense update is the same function, the page is the records."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nopg import Bandwidths, Transitions
from nopg._seeding import generator
from nopg.bellman import NOPG, PaperProblem
from nopg.bellman._solution import BellmanSolution
from nopg.linalg import DenseLU
from nopg.policies import Policy
from studies.bench import __main__ as command
from studies.bench.cases import QUICK_BANDWIDTHS, WARM_UP, Case, quick, star
from studies.bench.dense import DenseUpdate
from studies.bench.floor import Floor, floor_inputs, floor_seconds
from studies.bench.measure import measure
from studies.bench.page import brief, by_threads, growth, markdown, verdict_lines, verdicts
from studies.bench.plot import draw
from studies.bench.tasks import PRIOR_MASS, collected, new_policy, new_problem, prepared

ROWS = 60
CASE = Case(transitions=ROWS, candidates=8, dtype="float64", updates=WARM_UP + 1)
H = Bandwidths.from_values([0.5, 0.5, 2.0], [1.0])


def problem_of(case: Case) -> tuple[Transitions, PaperProblem, Policy]:
    data = prepared(collected(case.task, case.transitions), H)
    return data, new_problem(case, data, H), new_policy(case, data)


def solved(problem: PaperProblem, policy: Policy) -> BellmanSolution:
    estimator = NOPG(problem, solver=DenseLU(), tolerance=1e-12)
    return estimator.solve(policy, rng=generator(0, "actions"))


def floor_of(problem: PaperProblem, queries: Any, policy: Policy) -> Floor:
    floor = Floor(floor_inputs(problem, queries, policy, torch.float64))
    floor.respond(rows_at_once=17)
    floor.transpose()
    return floor


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


# The same work


def test_the_floor_and_the_update_have_the_same_responsibilities() -> None:
    _, problem, policy = problem_of(CASE)
    equation = problem.equation(policy, generator(0, "actions"))
    floor = floor_of(problem, problem.model.node_queries, policy)
    # Rounding: the logits are summed in another order.
    assert relative(floor.matrix().to_dense(), equation.operator.to_dense()) < 1e-12
    assert relative(floor.unknown[:, 0], equation.unknown) < 1e-12


def test_the_floor_and_the_update_have_the_same_products() -> None:
    _, problem, policy = problem_of(CASE)
    P = problem.equation(policy, generator(0, "actions")).operator
    floor = floor_of(problem, problem.model.node_queries, policy)
    x = torch.randn(ROWS, dtype=torch.float64, generator=generator(0, "x"))
    assert relative(floor.matrix() @ x, P.apply(x)) < 1e-12
    assert relative(floor.transposed_matrix() @ x, P.apply_transposed(x)) < 1e-12


@pytest.mark.parametrize("candidates", [8, None])
def test_the_pieces_of_the_floor_compose_to_the_direction_of_the_update(candidates: int | None) -> None:
    _, problem, policy = problem_of(replace(CASE, candidates=candidates))
    solution = solved(problem, policy)
    direction = (
        NOPG(problem, solver=DenseLU(), tolerance=1e-12)
        .estimate(policy, rng=generator(0, "actions"))
        .direction
    )

    nodes, initial = problem.model.node_queries, problem.initial
    total = [torch.zeros_like(part) for part in direction]
    for queries, weights in (
        (nodes, problem.discount * solution.mu),
        (initial, torch.full((len(initial.features),), 1 / len(initial.features), dtype=torch.float64)),
    ):
        floor = floor_of(problem, queries, policy)
        product = floor.matrix() @ floor.gradient_columns(solution.q)
        by_action = floor.action_gradient(product, problem.unknown_value) / H.actions
        parts = floor.differentiate_policy((weights[:, None] * by_action)[None], rows_at_once=17)
        total = [a + b for a, b in zip(total, parts, strict=True)]
    for ours, theirs in zip(total, direction, strict=True):
        assert relative(ours, theirs) < 1e-9  # both rest on solves to 10⁻¹²


def test_the_floor_averages_the_responsibilities_of_a_gaussian_policy() -> None:
    _, problem, policy = problem_of(replace(CASE, policy="gaussian"))
    inputs = floor_inputs(problem, problem.model.node_queries, policy, torch.float64)
    floor = Floor(inputs)
    floor.respond(rows_at_once=17)
    apart = torch.zeros_like(floor.weights)
    for places in inputs.places:
        one = Floor(replace(inputs, places=places[None]))
        one.respond(rows_at_once=ROWS)
        apart += one.weights / len(inputs.places)
    assert relative(floor.weights, apart) < 1e-12


def test_every_piece_of_the_floor_takes_time() -> None:
    _, problem, policy = problem_of(CASE)
    inputs = floor_inputs(problem, problem.model.node_queries, policy, torch.float32)
    assert min(floor_seconds(inputs, rounds=1).values()) > 0


def test_the_dense_update_has_the_direction_of_ours_where_no_sample_is_left_out() -> None:
    data, problem, policy = problem_of(replace(CASE, candidates=ROWS))
    dense = DenseUpdate.from_data(
        data,
        H,
        discount=problem.discount,
        prior_mass=PRIOR_MASS,
        unknown_value=problem.unknown_value,
        dtype=torch.float64,
    )
    estimate = NOPG(problem, solver=DenseLU(), tolerance=1e-12).estimate(policy, rng=generator(0, "actions"))
    for ours, theirs in zip(estimate.direction, dense.direction(policy), strict=True):
        assert relative(ours, theirs) < 1e-6
    assert float(dense.expected_return(policy).detach()) == pytest.approx(estimate.expected_return, rel=1e-9)


# Cases and records


def test_names_are_unique_and_say_what_differs_from_the_centre() -> None:
    cases = [*star(), *quick()]
    assert len({case.name for case in cases}) == len(cases)
    assert Case().name == "pendulum-1e5-K32"
    assert replace(Case(), discount=0.999, dtype="float64").name == "pendulum-1e5-K32-discount0.999-float64"


def test_a_case_comes_back_from_its_record() -> None:
    for case in star():
        assert Case.from_results(json.loads(json.dumps(case.values()))) == case


@pytest.mark.parametrize(("task", "features", "actions"), [("swimmer", 8, 2), ("halfcheetah", 17, 6)])
def test_ordering_the_rows_keeps_the_starts_of_the_episodes(task: str, features: int, actions: int) -> None:
    pytest.importorskip("mujoco")
    data = collected(task, 1_200)
    assert (data.features.shape[1], data.actions.shape[1]) == (features, actions)
    assert data.features[[0, 1_000]].equal(data.starts)
    h = Bandwidths.from_values(data.features.std(dim=0), data.actions.std(dim=0))
    ordered = prepared(data, h)
    assert ordered.starts.equal(data.starts)
    assert not ordered.features.equal(data.features)
    assert ordered.rewards.sort().values.equal(data.rewards.sort().values)


@pytest.mark.parametrize("case", [replace(case, transitions=200) for case in quick()], ids=lambda c: c.name)
def test_a_measured_case_can_be_told_in_a_line(case: Case) -> None:
    record = case.values() | {"threads": 1} | measure(case, QUICK_BANDWIDTHS, threads=1)
    assert record["update_seconds"] > 0
    assert record["ratio"] == pytest.approx(record["update_seconds"] / sum(record["floor"].values()))
    assert record["products"] >= 0
    assert record["peak_gigabytes"] >= record["peak_before_gigabytes"] > 0
    assert ("dense_seconds" in record) == case.dense
    assert brief(record).startswith(f"{case.name}: update ")


def test_a_case_that_cannot_run_is_skipped_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Case, "can_run", False)
    assert command.main(["--only", "swimmer-1e4", "--out", str(tmp_path)]) == 0
    assert "swimmer-1e4-K32: skipped, MuJoCo is not installed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


# The page


def record_of(case: Case, **measured: Any) -> dict[str, Any]:
    """Return a record of the kind that `measure` makes, quick as promised."""
    n = case.transitions
    pieces = ("policy", "responsibilities", "transpose", "gradient", "product", "transposed product")
    record = case.values() | {
        "threads": 1,
        "torch": "2.13.0",
        "python": "3.11.7",
        "cpu": "a processor",
        "date": "2025-01-01",
        "update_seconds": 2e-6 * n * (12 if case.policy == "gaussian" else 1),
        "update_cpu_seconds": 2e-6 * n * (12 if case.policy == "gaussian" else 1),
        "floor": dict.fromkeys(pieces, 1e-6 * n / 6),
        "floor_seconds": 1e-6 * n,
        "ratio": 2.0,
        "phases": {"policy": 1e-7 * n, "weights": 1e-7 * n, "solve": 1e-6 * n, "gradient": 1e-7 * n},
        "products": 40.0,
        "graph_seconds": 1e-5 * n,
        "training_seconds": 2e-4 * n,
        "features": 3,
        "K": case.candidates or 80,
        "weights_dtype": case.dtype,
        "peak_gigabytes": 0.5 + 1.5e-6 * n,
        "predicted_gigabytes": 0.6 + 1.5e-6 * n,
        "bandwidths": QUICK_BANDWIDTHS,
    }
    if case.dense:
        seconds = 1e-11 * n**3
        record |= {"dense_seconds": seconds, "dense_seconds_as_written": 3 * seconds}
        record |= {"dense_peak_gigabytes": 5e-8 * n**2}
    return record | measured


def test_every_promise_is_open_until_its_cases_are_measured() -> None:
    assert {verdict.kept for verdict in verdicts({})} == {None}


def test_good_records_keep_every_promise_and_bad_ones_none() -> None:
    good = [record_of(case) for case in star()]
    assert {verdict.kept for verdict in verdicts(by_threads(good)[1])} == {True}
    bad = []
    for case in star():
        n, slow = case.transitions, 5 if case.policy == "gaussian" else 1
        bad.append(
            record_of(
                case,
                update_seconds=1e-8 * n**1.5 * slow * 20,
                ratio=5.0,
                products=1e3 if case.discount == 0.999 else 40.0,
                peak_gigabytes=3.0,
                predicted_gigabytes=1.0,
            )
        )
    for record in bad:
        if record["policy"] == "gaussian":
            record["update_seconds"] *= 4
        if record["dense"]:
            record["dense_seconds"] = record["update_seconds"]
    assert {verdict.kept for verdict in verdicts(by_threads(bad)[1])} == {False}


def test_growth_is_the_exponent_of_a_power_law() -> None:
    cases = [Case(transitions=10**power) for power in (4, 5, 6)]
    found = {case.name: record_of(case, update_seconds=3.0 * case.transitions**1.05) for case in cases}
    assert growth(found, 32) == pytest.approx(1.05)
    assert growth(found, 128) is None


def test_the_page_and_its_figure_are_made_from_the_records_alone(tmp_path: Path) -> None:
    records = [record_of(case) for case in star()]
    page = markdown(records, figure="figures/performance.svg")
    assert (
        "10⁵, K = 32, γ = .99, float32: update over its floor | ≤ 3 × | 2 ×; 200 ms over 100 ms | kept"
        in page
    )
    assert all(f"| {case.name} |" in page for case in star())
    assert "a processor; torch 2.13.0, Python 3.11.7; 2025-01-01." in page
    assert "take 3.5 min of wall time: 10 s and 3.3 min." in page
    assert "missed" not in page
    draw(records, tmp_path / "performance.svg")
    first = (tmp_path / "performance.svg").read_bytes()
    draw(records, tmp_path / "performance.svg")
    assert (tmp_path / "performance.svg").read_bytes() == first
    assert all(line.startswith("kept") for line in verdict_lines(records))


def test_the_page_says_what_does_not_compare() -> None:
    odd = record_of(Case(), weights_dtype="float64", update_seconds=0.4, update_cpu_seconds=0.2)
    page = markdown([odd], figure="figures/performance.svg")
    assert "(computed in float64; busy machine: wall 2.0 × CPU, which is 1.00 × the floor)" in page
