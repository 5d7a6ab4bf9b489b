"""Random agents: what they draw, that a generator repeats it, and what they refuse."""

import math

import pytest
import torch

from nopg._seeding import generator
from nopg.envs import Pendulum, UniformAgent, simulate
from nopg.envs._agents import RandomAgent
from nopg.errors import ArgumentError
from studies.paper_data import MixtureOfGaussians

STATES = torch.zeros(4000, 2, dtype=torch.float64)
AGENTS = [MixtureOfGaussians(), UniformAgent(), UniformAgent.within(Pendulum())]


def draws(agent: RandomAgent, seed: int = 0) -> torch.Tensor:
    actions = agent.controller(generator(seed))(STATES)
    assert isinstance(actions, torch.Tensor)
    return actions


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_gives_one_float64_action_per_state(agent: RandomAgent) -> None:
    assert draws(agent).shape == (4000, 1)
    assert draws(agent).dtype == torch.float64


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_generator_gives_the_same_run_and_another_does_not(agent: RandomAgent) -> None:
    first, again, other = (
        simulate(Pendulum(), agent.controller(generator(seed)), steps=5) for seed in (1, 1, 2)
    )
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.actions, other.actions)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_leaves_the_global_generator_alone(agent: RandomAgent) -> None:
    before = torch.get_rng_state()
    draws(agent)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_does_not_look_at_the_state(agent: RandomAgent) -> None:
    elsewhere = agent.controller(generator(0))(STATES + 1)
    assert isinstance(elsewhere, torch.Tensor)
    assert torch.equal(elsewhere, draws(agent))


def test_uniform_actions_have_the_moments_of_a_uniform_distribution() -> None:
    a = draws(UniformAgent())
    assert a.abs().max() <= 5
    # Standard errors for 4000 draws: .046 of the mean, .020 of the deviation; four of them.
    assert abs(a.mean().item()) < 0.18
    assert a.std().item() == pytest.approx(10 / math.sqrt(12), abs=0.08)


def test_uniform_actions_within_an_environment_fill_its_box() -> None:
    a = draws(UniformAgent.within(Pendulum()))
    assert -2 <= a.min() < -1.99
    assert 1.99 < a.max() <= 2


def test_each_action_has_its_own_bounds() -> None:
    a = draws(UniformAgent(low=(-1.0, 10.0), high=(1.0, 11.0)))
    assert a.shape == (4000, 2)
    assert a.amin(0).tolist() == pytest.approx([-1, 10], abs=0.01)
    assert a.amax(0).tolist() == pytest.approx([1, 11], abs=0.01)


def test_a_mixture_has_the_moments_of_a_mixture() -> None:
    agent = MixtureOfGaussians(means=((-1.0,), (3.0,)), standard_deviations=((0.5,), (1.0,)), weights=(3, 1))
    a = draws(agent)
    # By hand: mean ¾·(−1) + ¼·3 = 0; second moment ¾·(1 + ¼) + ¼·(9 + 1) = 3.4375.
    assert a.mean().item() == pytest.approx(0.0, abs=4 * math.sqrt(3.4375 / 4000))
    assert (a**2).mean().item() == pytest.approx(3.4375, rel=0.12)


def test_components_without_width_are_drawn_in_the_proportion_of_their_weights() -> None:
    agent = MixtureOfGaussians(
        means=((-1.0, 5.0), (1.0, 6.0)), standard_deviations=((0, 0), (0, 0)), weights=(1, 4)
    )
    a = draws(agent)
    assert a.unique(dim=0).tolist() == [[-1.0, 5.0], [1.0, 6.0]]
    # Standard error of a share of .2 in 4000 draws: .0063; four of them.
    assert (a[:, 0] < 0).double().mean().item() == pytest.approx(0.2, abs=0.026)


def test_a_third_of_the_default_mixture_lies_beyond_the_torque_bound_of_the_pendulum() -> None:
    share = (draws(MixtureOfGaussians()).abs() > 2).double().mean().item()
    # Half of each outer component, plus .00135·2/3 of the middle one; standard error .0075.
    assert share == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize(
    ("low", "high"),
    [((1.0,), (-1.0,)), ((0.0,), (1.0, 2.0)), ((), ()), ((-math.inf,), (1.0,)), ((math.nan,), (1.0,))],
)
def test_an_impossible_box_is_refused(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="low is"):
        UniformAgent(low=low, high=high)
