import math
from pathlib import Path

import pytest
import torch

import nopg
from flat_settings import configured
from nopg.bellman import MultistepProblem
from nopg.bellman._sampled import SampledGradient
from nopg.data import Transitions
from nopg.errors import ArgumentError, ConstraintWarning
from nopg.evaluation import OfflineEvaluator
from nopg.models import LocalModel
from nopg.policies import LinearPolicy
from nopg.training import Constraint, ConstraintResult, TrainingResult
from nopg.training._constraints import DualAscent, cost_columns

# Small trainings are rarely significantly better.
pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")

GAMMA = 0.9


@pytest.fixture(scope="module")
def tank() -> Transitions:
    """Return single steps of level′ = level + .2 inflow; the best level is 1, the task starts at 0."""
    level, inflow = torch.meshgrid(
        torch.linspace(-0.4, 1.4, 19).double(), torch.linspace(-1, 1, 5).double(), indexing="ij"
    )
    s, a = level.reshape(-1, 1), inflow.reshape(-1, 1)
    return Transitions.from_arrays(
        s,
        a,
        -(s[:, 0] - 1.0).square(),
        s + 0.2 * a,
        state_names=["level"],
        action_names=["inflow"],
        initial_states=[[0.0]],
    )


def run(result: TrainingResult, steps: int = 200) -> torch.Tensor:
    """Return the levels that the true tank goes through from 0."""
    level, levels = torch.zeros(1, 1).double(), []
    for _ in range(steps):
        inflow = torch.as_tensor(result.policy(level.numpy())).reshape(1, 1).clamp(-1, 1)
        level = level + 0.2 * inflow
        levels.append(float(level))
    return torch.tensor(levels).double()


def share_above(levels: torch.Tensor, edge: float) -> float:
    weights = (1 - GAMMA) * GAMMA ** torch.arange(len(levels)).double()
    return float(weights @ (levels > edge).double())


def train(data: Transitions, *constraints: Constraint, **settings: object) -> TrainingResult:
    arguments: dict[str, object] = {
        "updates": 20,
        "learning_rate": 0.08,
        "progress": False,
        **settings,
    }
    network = configured(policy="deterministic", **arguments)  # as with constraints
    return nopg.optimize(data, GAMMA, constraints=constraints, **network)


@pytest.fixture(scope="module")
def free(tank: Transitions) -> TrainingResult:
    return train(tank)


@pytest.fixture(scope="module")
def held(tank: Transitions) -> TrainingResult:
    return train(tank, Constraint("level > 0.65", limit=0.05))


def test_without_limits_the_level_is_filled_and_nothing_is_said(free: TrainingResult) -> None:
    assert free.constraints == ()
    assert share_above(run(free), 0.65) > 0.3


def test_a_level_that_was_exceeded_is_kept_on_the_true_tank(held: TrainingResult) -> None:
    (answer,) = held.constraints
    assert answer.kept
    assert answer.cost <= 0.05
    assert answer.multiplier > 0
    levels = run(held)
    assert share_above(levels, 0.65) <= 0.05
    # The best that keeps out stays just below the edge.
    assert float(levels[-50:].mean()) > 0.35


def test_the_return_of_the_result_counts_no_price(free: TrainingResult, held: TrainingResult) -> None:
    assert held.expected_return < free.expected_return
    levels = torch.cat([torch.zeros(1).double(), run(held)[:-1]])
    came = float(GAMMA ** torch.arange(200).double() @ -(levels - 1.0).square())
    assert math.isclose(held.expected_return, came, rel_tol=0.15)


def test_a_slack_limit_has_no_price_and_changes_nothing(tank: Transitions, free: TrainingResult) -> None:
    result = train(tank, Constraint("level > 1.3", limit=0.5), Constraint("level < -0.3", limit=0.5))
    assert [answer.multiplier for answer in result.constraints] == [0.0, 0.0]
    assert result.expected_return == free.expected_return


def dual_of(constraint: Constraint, problem: MultistepProblem) -> DualAscent:
    gradient = SampledGradient(problem, problem.starts)
    return DualAscent([constraint], gradient, OfflineEvaluator.of(problem))


@pytest.mark.parametrize("cost", ["level > 0.65", "rows"])
def test_the_priced_return_falls_in_proportion_to_the_price(tank: Transitions, cost: str) -> None:
    constraint = Constraint(0.1 * tank.states[:, 0].square() if cost == "rows" else cost, 0.0)
    model = LocalModel(tank, costs=cost_columns([constraint], tank))
    problem = MultistepProblem.build(model, tank.starts, GAMMA)

    dual = dual_of(constraint, problem)

    def priced(price: float) -> float:
        return dual.charged([price]).solve(LinearPolicy([[0.3]])).expected_return

    lost = priced(0.0) - priced(0.01)
    assert lost > 0
    assert priced(0.0) - priced(0.02) == pytest.approx(2 * lost, rel=1e-6)


@pytest.mark.slow
def test_costs_that_are_given_row_by_row_are_kept_too(tank: Transitions) -> None:
    spent = tank.actions[:, 0].square()
    free = train(tank, Constraint(spent, limit=10.0))
    limit = 0.92 * free.constraints[0].cost
    held = train(tank, Constraint(spent, limit=limit))
    assert held.constraints[0].cost <= limit
    assert held.expected_return < free.expected_return


def test_limits_are_for_the_local_model(tank: Transitions) -> None:
    with pytest.raises(ArgumentError, match="which only the local model has"):
        train(tank, Constraint("level > 1", 0.1), model="paper")


@pytest.mark.slow
def test_a_limit_that_cannot_be_kept_is_announced_and_the_nearest_returned(tank: Transitions) -> None:
    with pytest.warns(ConstraintWarning, match="no price that was tried"):
        result = train(tank, Constraint("level > -9", limit=0.5), updates=2)
    (answer,) = result.constraints
    assert not answer.kept
    assert answer.cost == pytest.approx(1.0)


def test_what_came_of_a_limit_is_saved_with_the_result(tank: Transitions, tmp_path: Path) -> None:
    result = train(tank, Constraint("level > 1.3", limit=0.5, upper=True, name="brim"), updates=2)
    assert result.constraints[0].upper is not None
    assert nopg.load(result.save(tmp_path / "run")).constraints == result.constraints


def test_a_price_doubles_while_its_limit_is_exceeded_and_falls_by_the_root_once_it_is_kept(
    tank: Transitions,
) -> None:
    problem = MultistepProblem.build(LocalModel(tank), tank.starts, GAMMA)
    dual, found = dual_of(Constraint("level > 1", 0.1), problem), []
    for kept in (True, False, False, True, False, *[False] * 20):
        dual._change_prices([ConstraintResult("", 0.0, 0.0, None, 0.0, kept)])
        found.append(dual._prices[0] / dual._units[0])
    assert found[:5] == pytest.approx([0.0, 1.0, 2.0, 2.0 / 2**0.5, 2.0 / 2**0.5 * 2**0.25])
    assert found[-1] == pytest.approx(found[4] * 2**5)  # by 2^¼ each
    for _ in range(50):
        dual._change_prices([ConstraintResult("", 0.0, 0.0, None, 0.0, False)])
    assert dual._prices[0] == pytest.approx(1e3 * dual._units[0])


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Constraint([1.0, 2.0], 0.1), "one number for each of 95 rows"),
        (Constraint([math.nan] * 95, 0.1), "NaN or infinite"),
        (Constraint("pressure > 1", 0.1), "'pressure' in the region .* is not known"),
        (Constraint(lambda states: states > 1, 0.1), r"returned shape \(95, 1\)"),
    ],
)
def test_a_constraint_that_does_not_fit_the_data_is_refused_before_training(
    tank: Transitions, constraint: Constraint, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        train(tank, constraint)


def test_checkpoints_and_endless_limits_are_refused(tank: Transitions, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="keeps no checkpoints"):
        train(tank, Constraint("level > 1", 0.1), checkpoint=tmp_path)
    with pytest.raises(ArgumentError, match="limit of a constraint is inf"):
        Constraint("level > 1", math.inf)
