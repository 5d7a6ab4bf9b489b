"""Results on disk and back: the same controller, the same numbers, the same answers anywhere."""

from pathlib import Path

import numpy as np
import pytest
import torch

import nopg
from flat_settings import configured
from nopg.bundles import open_bundle
from nopg.data import Transitions
from nopg.envs import Pendulum, UniformAgent, collect, collect_grid
from nopg.errors import ArgumentError, BundleError, DataError
from nopg.policies import MLPPolicy
from nopg.training import TrainingConfig, TrainingResult, optimize

# Small trainings are rarely significantly better.
pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")

ASKED = [[3.0, 0.5], [0.1, -1.0], [-2.0, 4.0]]


def trained(model: str = "local", policy: str = "deterministic", **settings: object) -> TrainingResult:
    given = configured(
        policy=policy, model=model, updates=2, seed=3, start="given", progress=False, **settings
    )
    return optimize(collect_grid(Pendulum(), (7, 7, 2)), 0.7, **given)


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return trained()


@pytest.fixture(scope="module")
def saved(result: TrainingResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return result.save(tmp_path_factory.mktemp("saved") / "pendulum")


def assert_same(one: TrainingResult, other: TrainingResult) -> None:
    assert np.array_equal(one.policy(ASKED), other.policy(ASKED))
    for method in ("value", "unknown_at"):
        assert np.array_equal(getattr(one, method)(ASKED), getattr(other, method)(ASKED)), method
    assert one.summary() == other.summary()
    assert one.certificate == other.certificate
    assert one.history == other.history
    assert repr(one) == repr(other)
    assert torch.equal(one.data.states, other.data.states)
    assert one.problem.description == other.problem.description
    assert torch.equal(one.unknown_starts, other.unknown_starts)
    assert one.policy.schema == other.policy.schema


def test_a_loaded_result_answers_bit_for_bit_as_the_one_that_was_saved(
    result: TrainingResult, saved: Path
) -> None:
    again = nopg.load(saved)
    assert_same(result, again)
    assert again.evaluation.interval == result.evaluation.interval


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("deterministic", {}),
        ("gaussian", {"initial_states": [[3.14, 0.0], [2.0, 0.0]]}),
    ],
)
def test_policies_of_the_papers_model_come_back(
    policy: str, settings: dict[str, object], tmp_path: Path
) -> None:
    one = trained("paper", policy, **settings)
    assert_same(one, nopg.load(one.save(tmp_path / "one")))


def test_units_bounds_episodes_and_weights_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    levels, valve = rng.uniform(0, 1, (60, 1)), rng.uniform(-1, 1, (60, 1))
    data = Transitions.from_arrays(
        levels,
        valve,
        -levels[:, 0],
        levels + 0.1 * valve,
        episodes=np.arange(60) // 10,
        weights=np.full(60, 2.0),
        begins=np.arange(60) % 7 == 3,
        state_names=["level"],
        action_names=["valve"],
        units={"level": "m", "reward": "€"},
        bounds={"valve": (-1.0, 1.0)},
    )
    config = TrainingConfig(updates=1, start="given", progress=False)
    other = nopg.load(optimize(data, 0.9, model="paper", config=config).save(tmp_path / "one"))
    back = other.data
    assert other.policy.schema == back.schema == data.schema
    for name in ("states", "episodes", "weights", "begins", "starts"):
        assert torch.equal(getattr(back, name), getattr(data, name)), name
    assert back.start_kind == "episodes"


def test_without_its_data_a_result_still_acts_and_tells_its_numbers(
    result: TrainingResult, tmp_path: Path
) -> None:
    other = nopg.load(result.save(tmp_path / "bare", data=False))
    assert not open_bundle(tmp_path / "bare").has("data")
    assert np.array_equal(other.policy(ASKED), result.policy(ASKED))
    assert other.summary() == result.summary()
    assert np.array_equal(other.unknown_at(ASKED), result.unknown_at(ASKED))
    with pytest.raises(DataError, match="saved without its data"):
        other.value(ASKED)


def test_a_loaded_result_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    again = nopg.load(nopg.load(saved).save(tmp_path / "again"))
    assert_same(nopg.load(saved), again)


def test_nothing_is_overwritten_unless_asked(result: TrainingResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "one")
    with pytest.raises(ArgumentError, match="exists already"):
        result.save(path)
    result.save(path, overwrite=True)
    (tmp_path / "papers").mkdir()
    with pytest.raises(ArgumentError, match="names no file"):
        result.save(tmp_path / "papers", overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one", "papers"]


def test_notes_on_the_log_come_back_though_its_repairs_do_not(tmp_path: Path) -> None:
    data = collect(Pendulum(), UniformAgent.within(Pendulum()), episodes=4, steps=20, seed=0)
    found = optimize(data.derive(lags={"torque": 1}), 0.5, config=TrainingConfig(updates=1))
    again = nopg.load(found.save(tmp_path / "lags"))
    assert again.summary()["notes"] == list(again.evaluation.notes) == list(found.evaluation.notes)
    assert found.evaluation.notes == (
        "the task starts in the first rows of 4 episodes",
        "starts: 4 of 4 moved to later rows, where derived columns are known",
        "4 starts in the log, whose sampling error is in the interval",
    )


def test_a_known_reward_is_evaluated_and_no_part_of_a_file(tmp_path: Path) -> None:
    one = trained(reward=lambda s, a, after: 3.0 + 0.0 * s[:, 1])
    assert one.expected_return == pytest.approx(10.0, rel=1e-6)
    with pytest.raises(ArgumentError, match="functions are not saved; save with data=False"):
        one.save(tmp_path / "one")
    assert nopg.load(one.save(tmp_path / "bare", data=False)).summary() == one.summary()


def test_a_policy_of_ones_own_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Mine(MLPPolicy):
        pass

    data = collect_grid(Pendulum(), (5, 5, 2))
    policy = Mine.from_data(data.features, data.actions, rng=torch.Generator().manual_seed(0))
    config = TrainingConfig(updates=1, start="given", progress=False)
    one = optimize(data, 0.9, model="paper", policy=policy, config=config)
    with pytest.raises(ArgumentError, match="class Mine cannot be saved"):
        one.save(tmp_path / "mine")
    assert not list(tmp_path.iterdir())


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="there is no saved controller"):
        nopg.load(tmp_path / "nowhere")
