"""Controllers by structure: their columns, the logged gains, their training, saving and report."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import nopg
from bundles.forge import forge
from nopg import TrainingConfig, Transitions, deploy
from nopg.cli._app import app
from nopg.errors import ArgumentError, BundleError
from nopg.policies import ControlStructure, DeviationPolicy, FormulaPolicy, Formulas, MLPPolicy
from nopg.training import TrainingResult
from nopg.training._controller import Controller
from nopg.training._new_policy import build_policy, with_columns
from nopg.training._sensitivity import limited

KP, KI, INTERVAL = 0.4, 0.02, 5.0


@cache
def tank(episodes: int = 6, steps: int = 40) -> Transitions:
    """Return a log of a level under a velocity PI controller with noise on the inflow."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[float]] = {"level": [], "next": [], "set": [], "next set": [], "inflow": []}
    for _ in range(episodes):
        level, before, inflow = 1.0, 0.0, 0.4
        point = rng.uniform(0.5, 2.0)
        for _ in range(steps):
            error = point - level
            inflow = inflow + KP * (error - before) + KI * INTERVAL * error + 0.05 * rng.normal()
            inflow, before = float(np.clip(inflow, 0.0, 1.0)), error
            after = level + 0.25 * (inflow - 0.4 * level)
            later = rng.uniform(0.5, 2.0) if rng.random() < 0.1 else point
            for name, value in zip(rows, (level, after, point, later, inflow), strict=True):
                rows[name].append(value)
            level, point = after, later
    data = Transitions.from_arrays(
        np.stack([rows["level"], rows["set"]], axis=1),
        rows["inflow"],
        np.zeros(len(rows["level"])),
        np.stack([rows["next"], rows["next set"]], axis=1),
        episodes=np.repeat(np.arange(episodes), steps),
        state_names=["level", "setpoint"],
        action_names=["inflow"],
        bounds={"inflow": (0.0, 2.0)},
        exogenous=["setpoint"],
        interval=INTERVAL,
    )
    return data.with_reward("-(level - setpoint) ** 2")


def test_what_ran_before_is_imitated_by_the_same_structure_where_that_acts_as_the_log_did() -> None:
    data, formulas = with_columns(ControlStructure("pi"), tank())
    fast = build_policy(formulas, data, 0, limits=torch.stack(data.actions.aminmax(dim=0)))
    assert isinstance(fast, FormulaPolicy)
    near = limited(Controller(fast, data.schema), data, 0.0).policy
    assert isinstance(near, DeviationPolicy)
    assert isinstance(near.base, FormulaPolicy)
    assert near.base.gains == pytest.approx({"kp": KP, "ki": KI}, rel=0.25)
    assert fast.gains["kp"] > 2 * KP  # the trained one is as it was
    again = limited(Controller(near, data.schema), data, 0.1).policy
    assert isinstance(again, DeviationPolicy)
    assert again.base is near.base

    constant = FormulaPolicy(data.schema, {"inflow": "offset"}, {"offset": 0.3}, ([0.0], [1.0]))
    other = limited(Controller(constant, data.schema), data, 0.0).policy
    assert isinstance(other, DeviationPolicy)
    assert isinstance(other.base, MLPPolicy)


@cache
def trained() -> TrainingResult:
    quick = TrainingConfig(updates=11, start="given", progress=False)
    law = ControlStructure("pi", follows={"level": "setpoint"})
    data, formulas = with_columns(law, tank())
    first = Formulas(formulas.actions, {"kp": 0.3, "ki": 0.01}, formulas.columns)
    with pytest.warns(nopg.errors.SupportWarning):
        return nopg.optimize(data, 0.7, policy=first, config=quick)


def test_the_gains_of_the_logged_controller_are_found() -> None:
    data, formulas = with_columns(ControlStructure("pi"), tank())
    assert data.schema.states == ("level", "setpoint", "inflow_lag1", "level_lag1", "level_target_lag1")
    policy = build_policy(formulas, data, 0)
    assert isinstance(policy, FormulaPolicy)
    # Noise of .05 on 234 rows with errors of about .4; 3 standard errors.
    assert policy.gains == pytest.approx({"kp": KP, "ki": KI}, abs=0.03)
    assert torch.equal(policy.high, data.actions.amax(dim=0))


def test_a_few_updates_raise_the_return_and_keep_the_columns() -> None:
    result = trained()
    first, last = result.history[0].expected_return, result.history[-1].expected_return
    assert last > first
    law = result.policy.policy
    assert isinstance(law, FormulaPolicy)
    assert law.gains["ki"] > 0.01
    assert result.summary()["gains"] == law.gains
    assert "level_target_lag1" in result.policy.schema.derived


def test_a_stream_of_the_controller_acts_as_its_formula_says() -> None:
    result = trained()
    law = result.policy.policy
    assert isinstance(law, FormulaPolicy)
    stream, (kp, ki) = result.policy.stream(), law.gains.values()
    rest = float(tank().actions.mean())
    one = float(stream.act([1.0, 1.1])[0])
    assert one == pytest.approx(np.clip(rest + kp * 0.1 + ki * INTERVAL * 0.1, *_ends(law)))
    two = float(stream.act([1.1, 1.05], applied=[0.3])[0])
    assert two == pytest.approx(np.clip(0.3 + kp * (-0.05 - 0.1) - ki * INTERVAL * 0.05, *_ends(law)))


def _ends(law: FormulaPolicy) -> tuple[float, float]:
    return float(law.low), float(law.high)


def test_a_saved_controller_is_the_same_and_a_wrong_formula_in_it_is_refused(tmp_path: Path) -> None:
    result, seen = trained(), trained().data.states.numpy()
    saved = result.save(tmp_path / "tank")
    for again in (nopg.load(saved).policy, deploy.load(saved)):
        assert np.abs(np.asarray(again(seen)) - np.asarray(result.policy(seen))).max() <= 1e-12
    hostile: list[dict[str, object]] = [
        {"formulas": {"inflow": "kp * pressure"}, "gains": ["kp"]},
        {"formulas": {"inflow": 3}, "gains": []},
        {"formulas": {"inflow": "kp"}, "gains": ["kp", "kp"]},
        {"formulas": {"inflow": "().__class__"}, "gains": []},
        {"gains": ["kp"]},
    ]
    for wrong in hostile:
        _change(saved, wrong)
        for load in (nopg.load, deploy.load):
            with pytest.raises(BundleError):
                load(saved)
    saved = result.save(tmp_path / "again")
    assert nopg.load(saved).policy.policy.gains == result.policy.policy.gains


def _change(saved: Path, policy: dict[str, object]) -> None:
    """Put another description of the policy into a saved controller, with hashes that fit."""

    def change(documents: dict[str, Any]) -> None:
        documents["controller"]["policy"] = {"kind": "formula", **policy}

    forge(saved, saved, documents=change)


@pytest.mark.slow
def test_the_table_of_gains_predicts_the_return_around_each() -> None:
    gains = trained().gains
    kp, _ = gains
    assert float(kp.values[2]) == pytest.approx(kp.value)
    assert float(kp.returns[2]) == pytest.approx(trained().evaluation.expected_return)
    assert bool((kp.low < kp.returns).all())
    assert len({round(float(one), 6) for one in kp.returns}) == 5
    assert kp.name == "kp"


def test_a_network_has_no_gains() -> None:
    result = nopg.optimize(
        tank().starting_at([1.0, 1.0]), 0.9, model="paper", config=TrainingConfig(updates=1, progress=False)
    )
    with pytest.raises(ArgumentError, match="MLPPolicy has no gains"):
        result.gains  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("follows = {level = 'setpoint'}", "is a network"),
        ("policy = 'pi'\nfollows = ['level']", "follows is ['level']"),
        ("policy = 'pi'\nfollows = {pressure = 'setpoint'}", "names 'pressure'"),
        ("formulas = {inflow = 'kp * (setpoint - level)'}\ngains = {kp = 'x'}", "gains is {'kp': 'x'}"),
        ("formulas = {inflow = 'kp * (setpoint - level)'}", "nor a gain"),
        ("gains = {kp = 1.0}", "gains are given without formulas"),
    ],
)
def test_the_command_says_what_is_wrong(settings: str, words: str, tmp_path: Path) -> None:
    log, data = tmp_path / "tank.csv", tank()
    columns = np.column_stack([data.states.numpy(), data.actions.numpy(), np.asarray(data.episodes)])
    np.savetxt(log, columns, delimiter=",", header="level,setpoint,inflow,episode", comments="")
    told = ["fit", str(log), "-s", "level", "-a", "inflow", "--exogenous", "setpoint", "--episode", "episode"]
    (tmp_path / "nopg.toml").write_text(settings)
    told += ["--reward", "-(level - setpoint)**2", "-g", "0.9", "-o", str(tmp_path / "out")]
    told += ["--config", str(tmp_path / "nopg.toml")]
    found = CliRunner().invoke(app, told)
    assert found.exit_code != 0
    assert words in " ".join(f"{found.output} {found.exception}".split())


def test_pi_and_pid_begin_with_the_gains_of_the_simc_rule() -> None:
    # 0.9 of the level stays and 0.25 of the inflow is added: K = 2.5, τ = −1/ln 0.9 steps, no delay.
    tau = -1 / np.log(0.9)
    kp, ki = tau / (2 * 2.5 * 0.5), tau / (2 * 2.5 * 0.5) / (8 * 0.5 * INTERVAL)
    for kind in ("pi", "pid"):
        _, formulas = with_columns(ControlStructure(kind), tank())
        assert formulas.gains == pytest.approx({"kp": kp, "ki": ki, **({"kd": 0.0} if kind == "pid" else {})})
    _, proportional = with_columns(ControlStructure("p"), tank())
    assert set(proportional.gains.values()) == {0.0}
