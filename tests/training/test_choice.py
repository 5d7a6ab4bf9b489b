"""Which transition model a training takes, and how it says so."""

import pytest
import torch

import nopg
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.environments import Pendulum
from nopg.errors import ArgumentError
from nopg.graph import LocalLinear, MonteCarlo, NadarayaWatson, TransitionModel
from nopg.kernels import Bandwidths
from nopg.rollouts import collect_grid

MODELS: dict[str, type[TransitionModel]] = {"local-linear": LocalLinear, "nadaraya-watson": NadarayaWatson}
SMOOTH = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
JUMPING = Bandwidths.from_values([0.15], [0.15])


def smooth_plant() -> Transitions:
    return collect_grid(Pendulum(), (8, 8, 2))


def jumping_plant(n: int = 400) -> Transitions:
    """Every cell of a chequered plane of states and actions leads to a place of its own."""
    draws = torch.rand(n, 2, dtype=torch.float64, generator=generator(0, "jumps"))
    s, a = 6 * draws[:, :1], 3 * draws[:, 1:]
    places = torch.tensor([1.3, 5.2, 0.4, 3.7, 2.2, 4.9, 0.8], dtype=torch.float64)
    s_next = places[(s.floor() * 3 + 5 * a.floor()).long() % 7]
    return Transitions.from_arrays(s, a, s_next[:, 0], s_next)


def trained(data: Transitions, h: Bandwidths, **settings: object) -> nopg.TrainingResult:
    return nopg.optimize(data, 0.9, start="given", bandwidths=h, updates=1, progress=False, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "bandwidths", "name"),
    [(smooth_plant(), SMOOTH, "local-linear"), (jumping_plant(), JUMPING, "nadaraya-watson")],
)
def test_the_model_that_predicts_held_out_rows_better_is_taken(
    data: Transitions, bandwidths: Bandwidths, name: str
) -> None:
    result = trained(data, bandwidths)
    assert result.choice.name == name
    assert isinstance(result.solution.equation.problem.model, MODELS[name])
    comparison = result.choice.comparison
    assert comparison is not None
    assert comparison.chosen == min(comparison.one_step, key=lambda model: comparison.one_step[model]) == name


@pytest.mark.parametrize("name", MODELS)
def test_a_user_who_names_a_model_gets_it_whatever_the_data_say(name: str) -> None:
    for data, bandwidths in ((smooth_plant(), SMOOTH), (jumping_plant(), JUMPING)):
        result = trained(data, bandwidths, model=name)
        assert isinstance(result.solution.equation.problem.model, MODELS[name])
        assert result.choice.reason == f"{name}, as asked"
        assert result.choice.comparison is None


def test_an_integration_rule_takes_the_model_that_has_one() -> None:
    choice = trained(smooth_plant(), SMOOTH, integration=MonteCarlo(2)).choice
    assert choice.name == "nadaraya-watson"
    assert "integration rule" in choice.reason
    assert choice.comparison is None


def test_too_few_rows_to_compare_take_the_paper_model_and_say_so() -> None:
    choice = trained(smooth_plant().take(torch.arange(16)), SMOOTH).choice
    assert choice.name == "nadaraya-watson"
    assert choice.reason == "nadaraya-watson: 16 distinct rows are too few to compare models on"


def test_a_model_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        ArgumentError, match="no model 'linear'; choose 'auto', 'local-linear' or 'nadaraya-watson'"
    ):
        trained(smooth_plant(), SMOOTH, model="linear")


def test_the_reason_is_one_line_with_both_errors_and_the_result_shows_the_model() -> None:
    result = trained(smooth_plant(), SMOOTH)
    reason, comparison = result.choice.reason, result.choice.comparison
    assert comparison is not None
    assert reason.startswith("local-linear: held-out error ")
    assert "nadaraya-watson" in reason
    assert "\n" not in reason
    for error in comparison.one_step.values():
        assert f"{error:.2g}".lstrip("0") in reason
    assert ", local-linear, 1 updates)" in repr(result)


@pytest.mark.parametrize(
    ("name", "prior_mass", "expected"),
    [("nadaraya-watson", None, 1e-6), ("nadaraya-watson", 0.5, 0.5), ("local-linear", 0.5, 0.5)],
)
def test_the_prior_mass_of_the_user_goes_before_that_of_the_model(
    name: str, prior_mass: float | None, expected: float
) -> None:
    model = trained(smooth_plant(), SMOOTH, model=name, prior_mass=prior_mass).solution.equation.problem.model
    assert isinstance(model, LocalLinear | NadarayaWatson)
    assert model.prior_mass == expected


def test_the_prior_mass_of_local_linear_is_by_default_that_of_the_rule() -> None:
    data = smooth_plant()
    model = trained(data, SMOOTH, model="local-linear").solution.equation.problem.model
    assert isinstance(model, LocalLinear)
    assert model.prior_mass == model.state_support.prior_mass(model.data) > 1e-6
