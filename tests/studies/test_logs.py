"""Plants that log themselves under PI control: delays, set points, lags at runtime."""

import numpy as np
import pytest

from studies.calibration.plants.laws import Array, Law
from studies.logs import LOG_PLANTS, LogPlant, streamed


@pytest.mark.parametrize("name", LOG_PLANTS)
def test_a_log_is_the_same_for_the_same_seed_and_declares_its_columns(name: str) -> None:
    plant = LOG_PLANTS[name]
    data, again, other = (plant.data(300, seed) for seed in (0, 0, 1))
    assert data.states.equal(again.states)
    assert data.actions.equal(again.actions)
    assert not data.actions.equal(other.actions)
    assert len(data) == 300
    assert len(data.starts) == 50
    assert data.schema.reward == plant.reward
    assert dict(data.schema.exogenous) == dict(plant.exogenous)
    late = data.derive(lags=plant.lags)
    assert len(late.schema.derived) == sum(plant.lags.values())


@pytest.mark.parametrize("name", LOG_PLANTS)
def test_exogenous_columns_do_not_depend_on_the_actions(name: str) -> None:
    plant = LOG_PLANTS[name]

    def path(value: float) -> Array:
        start = plant.start(4, np.random.default_rng(0))
        law: Law = lambda measured: np.full((4, len(plant.actions)), value)  # noqa: E731
        return plant.run(law, start, 80, np.random.default_rng(1)).measured

    columns = [list(plant.states).index(column) for column in plant.exogenous]
    low, high = path(float(plant.low[0])), path(float(plant.high[0]))
    assert np.array_equal(low[..., columns], high[..., columns])
    assert not np.array_equal(low[:20], high[:20]) or name == "pipeline"


def response(plant: LogPlant, steps: int) -> Array:
    """Return the first measured column after one pulse of the action, less that without it."""

    def path(pulse: float) -> Array:
        count = 0

        def law(measured: Array) -> Array:
            nonlocal count
            count += 1
            return np.full((1, 1), pulse if count == 1 else 0.0)

        start = plant.start(1, np.random.default_rng(0))
        return plant.run(law, start, steps, np.random.default_rng(1)).measured[:, 0, 0]

    return path(1.0) - path(0.0)


@pytest.mark.parametrize(("name", "delay"), [("pipeline", 20), ("delay-line", 10)])
def test_an_action_shows_after_the_delay_and_not_before(name: str, delay: int) -> None:
    found = response(LOG_PLANTS[name], 40)
    assert np.allclose(found[:delay], 0.0, atol=1e-12)
    assert abs(found[delay]) > 0.05


def test_the_flow_of_the_pipeline_is_the_one_before_and_the_action_19_rows_ago() -> None:
    plant = LOG_PLANTS["pipeline"]
    late = plant.data(500, 0).derive(lags=plant.lags)
    oldest = late.states[:, late.schema.states.index("gate_change_lag19")]
    assert late.next_states[:, 0].allclose(late.states[:, 0] + oldest, atol=1e-9)


def test_lags_at_runtime_are_those_of_the_log() -> None:
    plant = LOG_PLANTS["delay-line"]
    data = plant.data(500, 0).derive(lags={"input": 3, "output": 1})
    seen: list[Array] = []

    def policy(states: Array) -> Array:
        seen.append(states.copy())
        return np.asarray(0.5 * states[:, 1:2] + 0.1 * np.sin(len(seen)))

    law = streamed(policy, data.schema, (plant.low, plant.high))(2, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    runs = plant.run(law, plant.start(2, rng), 10, rng)
    names = data.schema.states
    assert np.array_equal(seen[7][:, names.index("input_lag3")], runs.actions[4][:, 0])
    assert np.array_equal(seen[7][:, names.index("output_lag1")], runs.measured[6][:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["level-tank", "delay-line", "heated-tank", "two-tanks", "reactor"])
def test_the_strong_reference_does_better_than_the_behaviour(name: str) -> None:
    plant = LOG_PLANTS[name]
    logged, best = (plant.returns(law, 3) for law in (plant.behaviour(), plant.references()["tuned PI"]))
    assert best.discounted > logged.discounted + 3 * logged.standard_error
