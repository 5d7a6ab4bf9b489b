"""The plants that the monitor watches: logs that can be repeated, faults, ends of episodes."""

import pytest
import torch

from nopg._seeding import generator
from nopg.envs import TwoTanks, simulate
from studies.monitor.development_plants import DEVELOPMENT_PLANTS
from studies.monitor.plant import Fault, WatchedPlant
from studies.plants.laws import level_controller


@pytest.mark.parametrize("watched", DEVELOPMENT_PLANTS, ids=lambda watched: watched.name)
def test_a_log_has_its_rows_and_is_the_same_for_the_same_seed(watched: WatchedPlant) -> None:
    first, again, other = (watched.log(watched, seed) for seed in (1, 1, 2))
    assert len(first) == watched.rows
    assert torch.equal(first.next_states, again.next_states)
    assert not torch.equal(first.next_states, other.next_states)
    assert watched.sensor in first.schema.states


def test_faults_change_what_is_felt_moved_and_seen() -> None:
    (plant,) = (one for one in DEVELOPMENT_PLANTS if one.name == "lqr")
    starts = torch.tensor([[1.0, -0.5]], dtype=torch.float64)

    def rows(fault: Fault | None = None) -> torch.Tensor:
        data = plant.run(lambda x: 0 * x + 2.0, starts, 1, generator(0, "noise"), fault)
        return torch.cat([data.states, data.next_states])

    def change(fault: Fault) -> list[list[float]]:
        return [[round(value, 12) for value in row] for row in (rows(fault) - rows()).tolist()]

    # A fifth of both inputs of 2 is missing; sensors that nobody looks at are off in the log alone.
    assert change(Fault(gain=0.8)) == [[0.0, 0.0], [-0.04, -0.08]]
    assert change(Fault(push=0.3)) == [[0.0, 0.0], [0.3, 0.3]]
    assert change(Fault(sensor=0.5)) == [[0.5, 0.5], [0.5, 0.5]]


def test_the_level_controller_reaches_every_set_point_without_offset_and_smoothly() -> None:
    tanks = TwoTanks()
    starts = tanks.initial(100, rng=generator(0))
    run = simulate(tanks, level_controller(tanks), steps=150, initial_states=starts)
    assert (run.states[-1, :, 1] - run.states[-1, :, 2]).abs().max().item() < 1e-3
    # SIMC is meant to be smooth: no more than a quarter of the change of set point beyond it.
    change = run.states[0, :, 2] - run.states[0, :, 1]
    beyond = (run.states[:, :, 1] - run.states[0, :, 2]) * change.sign()
    assert bool((beyond.amax(dim=0) <= 0.25 * change.abs()).all())
