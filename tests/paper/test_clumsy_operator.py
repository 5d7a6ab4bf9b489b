"""The scripted operator and the synthetic demonstrations it made."""

import math
from importlib.resources import files

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import MountainCar, collect, simulate, synthetic_demonstrations
from nopg.errors import ArgumentError
from studies.clumsy_operator import ClumsyOperator, as_csv, make_demonstrations

STEADY = ClumsyOperator(delay=0, hold=(1, 1), wrong=0, pause=0, throttle=(1.0, 1.0))


@pytest.fixture(scope="module")
def data() -> Transitions:
    return synthetic_demonstrations()


def pushes(operator: ClumsyOperator, velocities: list[float], seed: int = 0) -> list[float]:
    """Return what one operator does while one car has these velocities."""
    act = operator.controller(generator(seed))
    rows = [torch.tensor([[0.0, v]], dtype=torch.float64) for v in velocities]
    return [torch.as_tensor(act(row)).item() for row in rows]


def test_an_operator_without_faults_pushes_the_way_the_car_rolls() -> None:
    assert pushes(STEADY, [0.1, -0.1, -0.2, 0.3]) == [1.0, -1.0, -1.0, 1.0]


def test_a_delay_acts_on_what_was_seen_steps_ago() -> None:
    late = ClumsyOperator(delay=2, hold=(1, 1), wrong=0, pause=0, throttle=(1.0, 1.0))
    assert pushes(late, [0.1, -0.1, -0.1, -0.1, 0.1, 0.1, 0.1]) == [1, 1, 1, -1, -1, -1, 1]


def test_a_push_is_held_for_its_length() -> None:
    slow = ClumsyOperator(delay=0, hold=(3, 3), wrong=0, pause=0, throttle=(1.0, 1.0))
    assert pushes(slow, [0.1, -0.1, -0.1, -0.1, 0.1, 0.1, 0.1]) == [1, 1, 1, -1, -1, -1, 1]


def test_faults_come_in_their_proportions() -> None:
    operator = ClumsyOperator(delay=0, hold=(1, 1), wrong=0.3, pause=0.1, throttle=(0.5, 1.0))
    rolling_right = torch.full((20_000, 2), 0.01, dtype=torch.float64)
    a = torch.as_tensor(operator.controller(generator(0))(rolling_right))
    # Standard errors of the shares: at most .0035; four of them.
    assert (a < 0).double().mean().item() == pytest.approx(0.3, abs=0.014)
    assert (a == 0).double().mean().item() == pytest.approx(0.1, abs=0.014)
    sizes = a[a != 0].abs()
    assert (sizes.min().item(), sizes.max().item()) == (0.5, 1.0)


def test_a_rest_lasts_between_its_ends() -> None:
    operator = ClumsyOperator(hold=(1, 1), rest=(3, 5), wrong=0, pause=0.2, throttle=(1.0, 1.0))
    acts = "".join("r" if a == 0 else "p" for a in pushes(operator, [0.1] * 400))
    # Rests may follow each other; the shortest is never below 3.
    assert min(len(rest) for rest in acts.strip("r").split("p") if rest) == 3


def test_an_operator_at_rest_tries_either_side() -> None:
    still = torch.zeros(200, 2, dtype=torch.float64)
    a = torch.as_tensor(STEADY.controller(generator(0))(still))
    assert set(a.flatten().tolist()) == {-1.0, 1.0}


def test_each_run_begins_with_an_empty_memory_and_repeats_with_its_generator() -> None:
    operator = ClumsyOperator()
    first, again, other = (
        simulate(MountainCar(), operator.controller(generator(k)), steps=60, initial_states=[[-0.5, 0.0]])
        for k in (1, 1, 2)
    )
    assert torch.equal(first.actions, again.actions)
    assert not torch.equal(first.actions, other.actions)


def test_a_steady_operator_is_far_better_than_the_clumsy_one() -> None:
    best = collect(MountainCar(), STEADY, episodes=10, steps=500, seed=0)
    assert best.rewards.sum().item() / 10 > -150


@pytest.mark.parametrize(
    "setting",
    [
        {"delay": -1},
        {"hold": (0, 3)},
        {"rest": (4, 3)},
        {"wrong": 0.6, "pause": 0.5},
        {"wrong": -0.1},
        {"pause": math.nan},
        {"throttle": (0.5, 1.5)},
    ],
)
def test_an_impossible_operator_is_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(setting))):
        ClumsyOperator(**setting)  # type: ignore[arg-type]


# The shipped demonstrations.


def test_the_script_makes_the_shipped_demonstrations_again(data: Transitions) -> None:
    seed, made = make_demonstrations()
    assert seed == 14
    assert torch.equal(made.actions, data.actions)
    assert made.episodes is not None
    assert data.episodes is not None
    assert torch.equal(made.episodes, data.episodes)
    for name in ("states", "next_states", "rewards"):
        # Equal to the bit on x86; another processor's cosine may differ in its last digit.
        torch.testing.assert_close(getattr(made, name), getattr(data, name), rtol=0, atol=1e-15)


def test_the_shipped_file_gives_back_every_bit(data: Transitions) -> None:
    shipped = files("nopg.envs").joinpath("synthetic_mountain_car.csv").read_text(encoding="utf-8")
    assert as_csv(data, 14) == shipped
    assert len(shipped) < 400_000


def test_the_shipped_file_says_that_it_is_synthetic() -> None:
    shipped = files("nopg.envs").joinpath("synthetic_mountain_car.csv").read_text(encoding="utf-8")
    assert "SYNTHETIC" in shipped.splitlines()[0]
    assert "not by a person" in shipped.splitlines()[0]


def test_ten_demonstrations_reach_the_goal_and_return_as_poorly_as_wanted(data: Transitions) -> None:
    assert data.episodes is not None
    lengths = data.episodes.bincount()
    assert len(lengths) == 10
    assert lengths.max() <= 500
    assert (data.rewards == -1).all()
    assert data.rewards.sum().item() / 10 == pytest.approx(-369.5)
    assert -450 <= data.rewards.sum().item() / 10 <= -300

    last = lengths.cumsum(0) - 1
    assert data.terminated.nonzero().flatten().tolist() == last.tolist()
    assert not data.truncated.any()
    assert (data.next_states[last, 0] >= 0.45).all()
    assert (data.next_states[:, 0] >= 0.45).sum() == 10


def test_demonstrations_start_where_the_task_starts(data: Transitions) -> None:
    assert data.start_kind == "episodes"
    assert data.starts.shape == (10, 2)
    assert (data.starts[:, 1] == 0).all()
    assert ((data.starts[:, 0] >= -0.6) & (data.starts[:, 0] <= -0.4)).all()


def test_every_row_is_a_step_of_the_mountain_car(data: Transitions) -> None:
    car = MountainCar()
    # One ulp of the cosine, times 0.0025.
    torch.testing.assert_close(car.step(data.states, data.actions), data.next_states, rtol=0, atol=1e-15)
    assert torch.equal(car.terminal(data.next_states), data.terminated)


def test_every_row_is_a_step_of_gymnasiums_mountain_car(data: Transitions) -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="the second implementation is Gymnasium's")
    env = gymnasium.make("MountainCarContinuous-v0").unwrapped
    env.reset(seed=0)
    for k in range(0, len(data), 7):
        env.state = data.states[k].numpy()
        observation, _, terminated, _, _ = env.step(data.actions[k].numpy())
        # Gymnasium rounds its state to float32.
        assert observation.tolist() == data.next_states[k].float().tolist()
        assert terminated == bool(data.terminated[k])
    env.close()
