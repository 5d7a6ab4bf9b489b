"""Every tensor of an update follows its operands; no GPU is needed to see that one does not."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from nopg import CheckpointConfig, TrainingConfig, _spatial, optimize
from nopg._checks import check_device
from nopg._seeding import generator
from nopg.bellman import NOPG, PaperProblem, solution_gradient
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.linalg import GMRES, Auto, BiCGSTAB, DenseLU, FixedPoint, Solver
from nopg.models import MonteCarlo, PaperModel
from nopg.policies import Policy
from nopg.training import TrainingResult
from reference.other_device import OTHER, Elsewhere, other_device
from reference.problem_cases import Case, PolicyKind, random_case

# torch tells of tensors without numbers; those of the other device have them.
pytestmark = pytest.mark.filterwarnings("ignore:.*non-meta parameter:UserWarning")

KINDS: tuple[PolicyKind, ...] = ("mlp", "gaussian")
SOLVERS: tuple[Callable[[], Solver], ...] = (GMRES, BiCGSTAB, FixedPoint, DenseLU, Auto)


@pytest.fixture(autouse=True)
def _four_large_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make so few rows have levels of smaller cells in the preconditioner."""
    monkeypatch.setattr(_spatial, "_MAX_DEPTH", 2)


def case(kind: PolicyKind = "mlp", *, rows: int = 500) -> Case:
    """Return weighted rows, some of them terminal, with narrow bandwidths: rows of different length."""
    drawn = random_case(3, rows=rows, terminals=True, policy=kind, prior_mass=1e-3)
    weights = 1.0 + torch.rand(rows, generator=generator(3, "weights"), dtype=torch.float64)
    data = replace(drawn.data, weights=weights, initial_states=drawn.data.states[:7])
    return replace(drawn, data=data, bandwidths=Bandwidths.from_values([0.25, 0.25], [0.7]))


def problem(
    of: Case,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | None = None,
    samples: int | None = None,
) -> PaperProblem:
    """Return the problem."""
    model = PaperModel(
        of.data,
        of.bandwidths,
        prior_mass=of.prior_mass,
        integration=None if samples is None else MonteCarlo(samples),
        dtype=dtype,
        device=device,
    )
    assert len(model.hierarchy.levels) > 1  # built before training, on the CPU
    return PaperProblem.build(model, of.data.schema.encode(of.data.starts), discount=of.discount)


def trained(task: PaperProblem, policy: Policy, solver: Solver) -> list[float]:
    """Return all numbers of three updates, and of the answer after them with its certificate."""
    tolerance = (
        1e-6 if isinstance(solver, DenseLU) else None
    )  # others may be asked for a tenth of the residual
    estimator, actor = NOPG(task, solver=solver, tolerance=tolerance), copy.deepcopy(policy)
    numbers: list[float] = []
    for _ in range(3):
        estimate = estimator.estimate(actor, rng=generator(0, "actions"))
        numbers += [estimate.expected_return, estimate.norm, *estimate.diagnostics.values()]
        with torch.no_grad():
            for parameter, part in zip(actor.parameters(), estimate.direction, strict=True):
                assert type(part) is torch.Tensor
                assert part.device == parameter.device == torch.device("cpu")
                parameter.add_(part, alpha=0.1 / estimate.norm)
                numbers += part.flatten().tolist()
    solution = estimator.solve(actor, rng=generator(0, "actions"))
    proof = solution.certificate
    numbers += [proof.return_error, proof.duality_gap, proof.mass_defect, float(proof.converged)]
    for part in (solution.q, solution.mu, *solution_gradient(solution)):
        numbers += part.flatten().tolist()
    return numbers


@cache
def expected_numbers(kind: PolicyKind, solver: Callable[[], Solver]) -> list[float]:
    """Return the numbers of a training on the CPU; both tests below compare to them."""
    one = case(kind)
    return trained(problem(one), one.policy, solver())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_updates_take_their_device_from_their_operands(
    kind: PolicyKind, solver: Callable[[], Solver]
) -> None:
    one, expected = case(kind), expected_numbers(kind, solver)
    task = problem(one)
    with torch.device("meta"):  # what is made without a device has no numbers
        found = trained(task, one.policy, solver())

    assert found == expected


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_updates_on_another_device_give_the_same_numbers(
    kind: PolicyKind, solver: Callable[[], Solver]
) -> None:
    one, expected = case(kind), expected_numbers(kind, solver)
    with other_device() as device:
        task = problem(one, device=device)
        assert isinstance(task.model.node_rewards, Elsewhere)
        found = trained(task, one.policy, solver())

    assert found == expected


def test_float32_and_several_samples_of_the_next_state_go_to_the_device_too() -> None:
    one = case(rows=500)
    expected = trained(problem(one, dtype=torch.float32, samples=2), one.policy, GMRES())

    with other_device() as device:
        task = problem(one, dtype=torch.float32, samples=2, device=device)
        found = trained(task, one.policy, GMRES())

    assert found == expected


def test_a_problem_moves_to_a_device_and_back() -> None:
    one = case(rows=500)
    task = problem(one)
    expected = trained(task, one.policy, GMRES())

    with other_device() as device:
        away = task.to(device=device)
        assert away.model.device == away.initial.features.device == OTHER
        assert trained(away, one.policy, GMRES()) == expected
        back = away.to(device="cpu")
        rough = away.to(torch.float32, device)
        exact = rough.to(torch.float64, "cpu")

    assert back.model.device == exact.model.device == torch.device("cpu")
    assert trained(back, one.policy, GMRES()) == expected
    # ψ is computed from the states, not read off the search: its last digits differ.
    assert trained(exact, one.policy, DenseLU()) == pytest.approx(
        trained(task, one.policy, DenseLU()), rel=1e-9, abs=1e-9
    )


def test_a_problem_that_need_not_move_is_the_same() -> None:
    task = problem(case(rows=300))
    assert task.to() is task
    assert task.to(torch.float64) is task
    assert task.to(torch.float64, "cpu") is task
    assert task.model.node_queries.to(task.model) is task.model.node_queries


def test_a_solution_on_a_device_answers_at_states_on_the_cpu() -> None:
    one = case("gaussian")
    states, actions = one.data.features[:20], one.data.actions[:20]

    def asked(task: PaperProblem) -> list[list[float]]:
        solution = NOPG(task, solver=DenseLU()).solve(one.policy, rng=generator(0, "actions"))
        answers = (
            solution.value(states),
            solution.action_value(states, actions),
            solution.visitation(states),
            solution.unknown_at(states),
        )
        return [answer.tolist() for answer in answers]

    with other_device() as device:
        assert asked(problem(one, device=device)) == asked(problem(one))


def test_training_on_a_device_ends_with_the_same_answer_on_the_cpu(tmp_path: Path) -> None:
    data = case(rows=400).data

    def answer(device: torch.device | None, folder: str) -> TrainingResult:
        return optimize(
            data,
            0.9,
            model=PaperModel.Config(precision="float32", device=device),
            policy="gaussian",
            config=TrainingConfig(updates=4),
            checkpoint=CheckpointConfig(tmp_path / folder, every=2),
        )

    here = answer(None, "here")
    with other_device() as device:
        there = answer(device, "there")
        again = answer(device, "there")  # from its last checkpoint

    for result in (there, again):
        assert result.history == here.history
        assert result.expected_return == here.expected_return
        assert result.certificate == here.certificate
        assert type(result.solution.arrays()["q"]) is torch.Tensor
        parameters = zip(result.policy.policy.parameters(), here.policy.policy.parameters(), strict=True)
        assert all(
            type(ours.data) is torch.Tensor and torch.equal(ours, theirs) for ours, theirs in parameters
        )


def test_a_policy_on_another_device_is_refused() -> None:
    one = case(rows=60)
    with pytest.raises(ArgumentError, match="the policy is on meta; give it on the CPU"):
        optimize(one.data, 0.9, policy=copy.deepcopy(one.policy).to("meta"))


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"device 'abacus' cannot be used here .*; try 'cpu'"):
        check_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match=r"device 'cuda' cannot be used here .*; try 'cpu'"):
            optimize(case(rows=60).data, 0.9, model=PaperModel.Config(device="cuda"))


def test_the_other_device_refuses_tensors_of_the_cpu() -> None:
    with other_device() as device:
        ours, theirs = torch.ones(3), torch.ones(3, device=device)
        assert (theirs + theirs).tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match="two devices"):
            _ = ours + theirs
