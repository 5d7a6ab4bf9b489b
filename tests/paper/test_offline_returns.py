"""Rival estimates of a policy's return, on plants where the answer is known."""

from __future__ import annotations

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.evaluation._control_law import PolicyLaw
from nopg.kernels import Bandwidths
from studies.baselines import importance_sampling_return, resampled_return


def coin(episodes: int = 2_000, seed: int = 0) -> Transitions:
    """Two steps; the reward is the action, a fair coin; the first state is 0, the second 1."""
    rng = generator(seed, "coin")
    actions = torch.randint(2, (episodes * 2, 1), generator=rng).double()
    states = torch.tensor([0.0, 1.0]).double().repeat(episodes)[:, None]
    ended = torch.tensor([False, True]).repeat(episodes)
    number = torch.arange(episodes).repeat_interleave(2)
    return Transitions.from_arrays(
        states, actions, actions[:, 0], states + 1, terminated=ended, episodes=number
    )


@pytest.mark.parametrize("per_decision", [True, False])
def test_importance_sampling_reweighs_a_coin(per_decision: bool) -> None:
    data = coin()
    # A policy that gives 1 nine times in ten, against the fair coin of the log.
    ratios = torch.where(data.actions[:, 0] == 1, 0.9 / 0.5, 0.1 / 0.5).log()
    found = importance_sampling_return(data, ratios, discount=0.8, per_decision=per_decision)
    # 2000 episodes with weights up to 3.2: about a hundredth.
    assert found == pytest.approx(0.9 * 1.8, abs=0.05)


def test_equal_policies_give_the_logged_mean() -> None:
    data = coin(50)
    rewards = data.rewards.view(50, 2)
    found = importance_sampling_return(data, torch.zeros(100), discount=0.5)
    assert found == pytest.approx(float((rewards[:, 0] + 0.5 * rewards[:, 1]).mean()))


def test_resampling_follows_the_nearest_transitions() -> None:
    data = coin(50)
    h = Bandwidths.from_values([0.1], [0.1], [0.1])
    one, zero = (
        PolicyLaw.of(lambda states, a=a: torch.full((len(states), 1), a), data.schema) for a in (1.0, 0.0)
    )
    always, never = (resampled_return(policy, data, h, discount=0.8) for policy in (one, zero))
    assert always == pytest.approx(1.8)
    assert never == pytest.approx(0.0)


def test_what_cannot_be_weighed_is_refused() -> None:
    data = coin(5)
    with pytest.raises(ArgumentError, match="one for each row"):
        importance_sampling_return(data, [0.0], discount=0.9)
    loose = Transitions.from_arrays([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    with pytest.raises(DataError, match="episodes"):
        importance_sampling_return(loose, [0.0, 0.0], discount=0.9)
