import time

import pytest

import nopg
from nopg._memory import free_memory
from nopg.envs import Pendulum, collect_uniform
from nopg.errors import ArgumentError, MemoryBudgetError
from nopg.models._footprint import Footprint, memory_budget

SMALL = Footprint(queries=10_000, columns=6)


def test_the_default_budget_is_a_share_of_what_is_free() -> None:
    budget, free = memory_budget(None), free_memory()
    assert 0.4 * free < budget < 0.7 * free  # others allocate meanwhile
    assert memory_budget(123) == 123
    with pytest.raises(ArgumentError, match="memory_budget is 0; give a positive number"):
        memory_budget(0)


@pytest.mark.parametrize("candidates", [8, 32, 500])
def test_what_is_affordable_is_what_the_prediction_says(candidates: int) -> None:
    assert SMALL.affordable(SMALL.bytes(candidates)) == candidates
    assert SMALL.affordable(SMALL.bytes(candidates + 1) - 1) == candidates


def test_a_budget_too_small_is_refused_with_what_would_fit() -> None:
    with pytest.raises(MemoryBudgetError, match=r"the budget is 0\.7 GB; \d+ rows would fit") as caught:
        Footprint(10_000_000, 6).affordable(700_000_000)
    fits = int(str(caught.value).split(" rows would fit")[0].split()[-1])
    assert Footprint(fits, 6).affordable(700_000_000) >= 8


def test_training_that_cannot_fit_is_refused_in_less_than_a_second_of_cpu_time() -> None:
    data = collect_uniform(Pendulum(), 200_000, seed=0)
    started = time.process_time()
    with pytest.raises(MemoryBudgetError, match="rows would fit"):
        nopg.optimize(
            data,
            0.9,
            model=nopg.PaperModel.Config(memory_budget=500_000_000),
            config=nopg.TrainingConfig(progress=False),
        )
    assert time.process_time() - started < 1.0
