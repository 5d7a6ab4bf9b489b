"""Controllers that are formulas: their numbers, gradients, limits, fits, and what is refused."""

import math

import pytest
import torch

from nopg import Schema
from nopg._columns import Columns
from nopg.errors import ArgumentError
from nopg.policies import ControlStructure, FormulaPolicy, Formulas
from nopg.policies._imitation import imitate

SCHEMA = Schema(("angle", "speed", "setpoint"), ("valve", "pump"), {"angle": 360.0})
LAWS = {
    "valve": "bias + kp * (setpoint - speed) + k * sin(angle / 57)",
    "pump": "k * kp * max(angle, 10) / 100 + tanh(bias * speed)",
}
GAINS = {"bias": 0.2, "kp": 1.5, "k": -0.7}


def states(count: int = 40) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, generator=rng, dtype=torch.float64) * torch.tensor([60.0, 1.0, 1.0])


def actions(count: int = 40) -> torch.Tensor:
    rng = torch.Generator().manual_seed(2)
    return torch.randn(count, 2, generator=rng, dtype=torch.float64) * torch.tensor([2.0, 0.3])


def law(limit: float = 1e6) -> FormulaPolicy:
    ends = ([-limit, -limit], [limit, limit])
    return FormulaPolicy(SCHEMA, LAWS, GAINS, ends, scales=[2.0, 0.5, 3.0])


def unit(kind: str, **more: object) -> Formulas:
    columns = Columns(("level", "setpoint"), ("valve",), exogenous={"setpoint": "log"}, interval=2.0)
    return ControlStructure(kind, **more).formulas(columns, {"level": 3.0, "setpoint": 1.0})  # type: ignore[arg-type]


def test_actions_are_the_formulas_of_raw_columns_with_angles_turned() -> None:
    raw = torch.tensor([[370.0, 0.4, 1.0], [-30.0, -1.0, 0.0]], dtype=torch.float64)
    found = law().mode(SCHEMA.encode(raw))
    for row, (angle, speed, goal) in enumerate([(10.0, 0.4, 1.0), (-30.0, -1.0, 0.0)]):
        valve = 0.2 + 1.5 * (goal - speed) - 0.7 * math.sin(angle / 57)
        pump = -0.7 * 1.5 * max(angle, 10.0) / 100 + math.tanh(0.2 * speed)
        assert found[row].tolist() == pytest.approx([valve, pump], rel=1e-12)


def test_actions_are_clipped_to_the_limits_and_have_no_gradient_there() -> None:
    policy, features = law(0.5), SCHEMA.encode(states())
    found = policy.mode(features).detach()
    assert float(found.abs().max()) == 0.5
    at_limit = (found.abs() == 0.5).all(dim=1)
    assert bool(at_limit.any())
    gradient = torch.autograd.grad(policy.mode(features[at_limit]).sum(), policy.raw)[0]
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("which", ["parameters", "features"])
def test_gradients_are_those_of_finite_differences(which: str) -> None:
    policy, features = law(), SCHEMA.encode(states())
    weights = actions()
    place = policy.raw if which == "parameters" else features.requires_grad_()
    found = torch.autograd.grad((weights * policy.mode(features)).sum(), place)[0].reshape(-1)
    flat, step = place.detach().reshape(-1), 1e-6
    for k in range(0, len(flat), 1 if which == "parameters" else 7):
        values = []
        for sign in (1.0, -1.0):
            moved = flat.clone()
            moved[k] += sign * step
            with torch.no_grad():
                if which == "parameters":
                    values.append(float((weights * policy.asked(features, moved)).sum()))
                else:
                    values.append(float((weights * policy.mode(moved.view_as(features))).sum()))
        # Central differences with 1e-6 of values of order 100: rounding of about 1e-8.
        assert float(found[k]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_slopes_are_the_derivatives_of_every_row() -> None:
    policy, features = law(), SCHEMA.encode(states(5))
    found = policy.slopes(features, policy.raw.detach())
    assert found.shape == (5, 2, 3)
    for row in range(5):
        for k in range(2):
            one = torch.autograd.grad(policy.mode(features)[row, k], policy.raw)[0]
            assert torch.allclose(found[row, k], one, rtol=1e-12, atol=1e-12)


def test_limits_are_the_logged_range_whatever_is_declared() -> None:
    schema = Schema(SCHEMA.states, SCHEMA.actions, SCHEMA.angles, bounds={"valve": (-70.0, 70.0)})
    policy = FormulaPolicy.from_data(schema, LAWS, GAINS, features=SCHEMA.encode(states()), actions=actions())
    assert policy.low.tolist() == actions().amin(dim=0).tolist()
    assert policy.high.tolist() == actions().amax(dim=0).tolist()


def test_a_fit_finds_the_gains_of_a_linear_law_at_once_though_some_actions_were_clipped() -> None:
    columns = Columns(("level", "setpoint"), ("valve",))
    seen = states()[:, 1:]
    texts, true = {"valve": "bias + kp * (setpoint - level)"}, {"bias": 0.1, "kp": 2.0}
    done = FormulaPolicy(columns, texts, true, ([-1.0], [1.0])).mode(seen).detach()
    assert 0.1 < float((done.abs() == 1.0).double().mean()) < 0.9
    policy = FormulaPolicy(columns, texts, {"bias": 0.0, "kp": 0.0}, ([-1.0], [1.0]))
    error = imitate(policy, seen, done, torch.ones(len(seen)).double(), steps=1)
    assert policy.gains == pytest.approx(true, rel=1e-10)
    assert error < 1e-20


def test_a_fit_of_a_product_of_gains_needs_some_steps_and_finds_it() -> None:
    columns = Columns(("x", "y"), ("u",))
    seen, texts = states()[:, 1:], {"u": "k * (a * x + y) + k * k * 0.1"}
    done = FormulaPolicy(columns, texts, {"k": 0.5, "a": -2.0}, ([-99.0], [99.0])).mode(seen).detach()
    policy = FormulaPolicy(columns, texts, {"k": 1.0, "a": 0.0}, ([-99.0], [99.0]))
    imitate(policy, seen, done, torch.ones(len(seen)).double())
    assert policy.gains == pytest.approx({"k": 0.5, "a": -2.0}, rel=1e-6)


def test_noise_on_the_action_does_not_move_the_gains_of_a_velocity_form_along_runs() -> None:
    rng = torch.Generator().manual_seed(0)
    kp, ki, rows, runs = 0.5, 0.05, [], []
    for run in range(4):
        level, integral, before, acted, goal = 0.0, 0.0, 0.0, 0.0, 1.0
        for t in range(150):
            goal = float(torch.rand(1, generator=rng)) if t % 30 == 0 else goal
            error, last = goal - level, (acted, before)
            integral, before = integral + ki * error, error
            acted = kp * error + integral + 0.1 * float(torch.randn(1, generator=rng))
            rows.append((error, *reversed(last), acted))
            runs.append(run)
            level += 0.3 * (acted - 0.5 * level)
    seen = torch.tensor(rows, dtype=torch.float64)
    columns = Columns(("error", "error_before", "before"), ("u",))
    texts = {"u": "before + kp * (error - error_before) + ki * error"}
    fits = []
    for known in (None, torch.tensor(runs)):
        policy = FormulaPolicy(columns, texts, {"kp": 0.0, "ki": 0.0}, ([-9.0], [9.0]))
        imitate(policy, seen[:, :3], seen[:, 3:], torch.ones(len(seen)).double(), runs=known)
        fits.append(policy.gains)
    plain, along = fits
    assert abs(plain["kp"] - kp) > 0.1
    assert along == pytest.approx({"kp": kp, "ki": ki}, rel=0.1)
    laws = FormulaPolicy(columns, {"u": "kp * error"}, {"kp": 0.0}, ([-9.0], [9.0]))
    exact = seen[:, :1] * 2.0 + 0.1 * torch.randn(len(seen), 1, generator=rng, dtype=torch.float64)
    imitate(laws, seen[:, :3], exact, torch.ones(len(seen)).double(), runs=torch.tensor(runs))
    again = FormulaPolicy(columns, {"u": "kp * error"}, {"kp": 0.0}, ([-9.0], [9.0]))
    imitate(again, seen[:, :3], exact, torch.ones(len(seen)).double())
    assert laws.gains == again.gains  # noise of successive rows is left as it is


def test_gains_that_the_log_cannot_tell_apart_stay_where_they_were() -> None:
    columns = Columns(("x", "y"), ("u",))
    seen = torch.stack([states()[:, 1], torch.zeros(40).double()], dim=1)
    policy = FormulaPolicy(columns, {"u": "a * x + b * y"}, {"a": 0.0, "b": 4.0}, ([-99.0], [99.0]))
    imitate(policy, seen, 3.0 * seen[:, :1], torch.ones(40).double())
    assert policy.gains == pytest.approx({"a": 3.0, "b": 4.0})


@pytest.mark.parametrize(
    ("laws", "gains", "words"),
    [
        ({"valve": "kp"}, {"kp": 1.0}, "one for each"),
        ({"valve": "kp * speed", "pump": "kq"}, {"kp": 1.0}, "'kq' .* nor a gain"),
        ({"valve": "kp * pump", "pump": "kp"}, {"kp": 1.0}, "pump_lag1"),
        ({"valve": "kp * next(speed)", "pump": "kp"}, {"kp": 1.0}, "neither a state column"),
        ({"valve": "kp", "pump": "kp"}, {"kp": 1.0, "ki": 0.0}, "'ki' is in no formula"),
        ({"valve": "speed", "pump": "speed"}, {"speed": 1.0}, "name of a column"),
        ({"valve": "kp", "pump": "__import__('os')"}, {"kp": 1.0}, "not understood|is neither"),
        ({"valve": "kp", "pump": "kp"}, {"kp": math.nan}, "finite"),
    ],
)
def test_what_is_no_law_is_refused(laws: dict[str, str], gains: dict[str, float], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        FormulaPolicy(SCHEMA, laws, gains, ([-1.0, -1.0], [1.0, 1.0])).mode(SCHEMA.encode(states()))


def test_gains_are_set_in_units_of_the_plant() -> None:
    policy = law()
    policy.set_gains(kp=4.0)
    assert policy.gains == pytest.approx({**GAINS, "kp": 4.0})
    with pytest.raises(ArgumentError, match="no gain 'kd'"):
        policy.set_gains(kd=1.0)


# Structures.


def test_structures_write_these_formulas() -> None:
    assert unit("p").actions == {"valve": "bias + kp * (setpoint - level)"}
    error, before = "setpoint - level", "level_target_lag1 - level_lag1"
    pi = f"valve_lag1 + kp * ({error} - ({before})) + ki * 2.0 * ({error})"
    assert unit("pi").actions == {"valve": pi}
    assert unit("pi").columns == {"level_target_lag1": ("level", "setpoint")}
    columns = Columns(("level", "setpoint"), ("valve",))
    assert unit("pi").lags(columns) == {"valve": 1, "level": 1}
    assert unit("pid").lags(columns) == {"valve": 1, "level": 2}
    assert unit("linear").actions["valve"] == "offset + k_level * (level - 3) + k_setpoint * (setpoint - 1)"
    assert unit("p", follows={"level": 1.5}).actions["valve"] == "bias + kp * (1.5 - level)"


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("pix", {}, "no structure 'pix'"),
        ("pi", {"follows": {"lvl": "setpoint"}}, "names 'lvl'"),
        ("pi", {"follows": {"level": "goal"}}, "names 'goal'"),
        ("pi", {"follows": {"level": 1.0, "setpoint": 2.0}}, "one column for each action"),
    ],
)
def test_structures_that_do_not_fit_are_refused(kind: str, more: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        unit(kind, **more)


def test_without_an_only_set_point_one_has_to_say_it() -> None:
    with pytest.raises(ArgumentError, match="which column follows which set point"):
        ControlStructure("pi").formulas(Columns(("level", "flow"), ("valve",)), {})


def test_a_velocity_form_leaves_a_limit_at_once_and_equals_a_pi_controller_inside() -> None:
    """Position form: u = u₀ + kp·e + ki·Σe."""
    formulas = unit("pi")
    kp, ki, errors = 0.3, 0.05, [0.4, 0.1, -0.2, 0.3]
    columns = Columns(("level", "setpoint", "valve_lag1", "level_lag1", "level_target_lag1"), ("valve",))
    policy = FormulaPolicy(columns, formulas.actions, {"kp": kp, "ki": ki}, ([-1.0], [1.0]))
    applied, before, total = 0.0, 0.0, 0.0
    for error in errors:
        row = torch.tensor([[1.0 - error, 1.0, applied, 1.0 - before, 1.0]], dtype=torch.float64)
        applied, before, total = float(policy.mode(row).detach()), error, total + 2.0 * error
        assert applied == pytest.approx(kp * error + ki * total)
    row = torch.tensor([[0.0, 1.0, 1.0, -0.2, 1.0]], dtype=torch.float64)  # at the limit, and the error falls
    policy.set_gains(ki=0.0)
    assert float(policy.mode(row).detach()) == pytest.approx(1.0 - 0.2 * kp)
