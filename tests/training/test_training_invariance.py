"""What is trained does not depend on how the log of the plant is written."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import nopg
from changed_logs import CHANGES, CLOSE, Change, linear_run, twice, weighted
from nopg import TrainingConfig, TrainingResult, Transitions
from nopg.baselines._regulator import LinearQuadraticFit
from nopg.envs import Pendulum, UniformAgent, collect
from nopg.policies import MLPPolicy
from nopg.policies._imitation import imitate

pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")

GAMMA = 0.9
EVERYTHING = Change(states=(250.0, 30.0), actions=(0.01, -20.0), reward=(1e3, 1e5), episodes=True)


@cache
def log_of(name: str) -> Transitions:
    if name == "regulator":
        return linear_run(sensor=0.0)  # on which a regulator takes the place of the network
    plant = Pendulum(start="random")  # on which a network is kept
    return collect(plant, UniformAgent.within(plant), episodes=15, steps=15, seed=0)


def trained(data: Transitions) -> TrainingResult:
    return nopg.optimize(data, GAMMA, config=TrainingConfig(updates=3, progress=False))


@cache
def plainly(name: str) -> TrainingResult:
    return trained(log_of(name))


def assert_same(found: TrainingResult, expected: TrainingResult, change: Change | None = None) -> None:
    """Assert the same controller, verdict and interval; a change moves actions and returns."""
    written, data = change or Change(), expected.data
    one, other = found.evaluation, expected.evaluation
    span = other.least_gain / 1e-5  # of returns
    assert (found.start, one.verdict, len(one.reasons)) == (expected.start, other.verdict, len(other.reasons))
    radius = (data.actions.amax(dim=0) - data.actions.amin(dim=0)) / 2
    acted = torch.as_tensor(found.policy(written.state(data.states, data.schema)))
    apart = (written.action(acted) - torch.as_tensor(expected.policy(data.states))) / radius
    assert float(apart.abs().max()) < CLOSE
    for mine, its in (
        (one.expected_return, other.expected_return),
        *zip(one.interval, other.interval, strict=True),
    ):
        assert written.value(mine, GAMMA) == pytest.approx(its, abs=CLOSE * span)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "regulator"])
@pytest.mark.parametrize("change", [*CHANGES.values(), EVERYTHING])
def test_controller_verdict_and_interval_do_not_depend_on_how_the_log_is_written(
    change: Change, name: str
) -> None:
    result = trained(change.log(log_of(name)))
    assert isinstance(result.policy.policy, MLPPolicy) == (name == "network")
    assert_same(result, plainly(name), change)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "regulator"])
def test_every_row_twice_trains_the_same_as_weights_of_two_and_as_each_row_once(name: str) -> None:
    data, every = log_of(name), torch.ones(len(log_of(name)), dtype=torch.bool)
    for log in (twice(data, every), weighted(data, 2 * every)):
        assert_same(trained(log), plainly(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["network", "regulator"])
def test_some_episodes_twice_train_the_same_as_weights_of_two_there(name: str) -> None:
    data = log_of(name)
    assert data.episodes is not None
    some = data.episodes < 5
    assert_same(trained(twice(data, some)), trained(weighted(data, 1 + some.long())))


@pytest.mark.parametrize("change", CHANGES)
def test_a_regulator_has_no_units(change: str) -> None:
    written, data = CHANGES[change], log_of("regulator")
    laws = []
    for log in (data, written.log(data)):
        fit = LinearQuadraticFit.of(log)
        assert fit is not None
        laws.append(fit.regulator(GAMMA, caution=0.1))
    plain, moved = laws
    assert plain is not None
    assert moved is not None
    acted = written.action(moved(written.state(data.states, data.schema)))
    assert float((acted - plain(data.states)).abs().max()) < CLOSE


@pytest.mark.parametrize("change", [name for name in CHANGES if "reward" not in name])
def test_a_network_imitates_the_same_in_other_units(change: str) -> None:
    written, data = CHANGES[change], log_of("network")
    # A hundred steps of L-BFGS on a law with kinks enlarge rounding to the size of actions.
    wanted = (3.0 * data.features[:, :1] - data.states[:, 1:2]).clamp(-1.5, 1.5)
    acted = []
    for one in (Change(), Change(states=written.states, actions=written.actions)):
        log = one.log(data)
        network = MLPPolicy.from_data(
            log.features, log.actions, rng=torch.Generator().manual_seed(0), linear=True
        )
        targets = one.actions[0] * wanted + one.actions[1]
        imitate(network, log.features, targets, torch.ones(len(log), dtype=torch.float64))
        acted.append(one.action(network.mode(log.features).detach()))
    assert float((acted[0] - acted[1]).abs().max()) < CLOSE
