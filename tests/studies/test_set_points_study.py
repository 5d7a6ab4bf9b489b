"""The coupled masses: their log, the engineer's law and the records of a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nopg.errors import DataError
from studies import set_points
from studies.neorl2_tasks import TASKS


def test_the_log_has_one_pair_of_set_points_in_each_episode_and_the_stated_cost_is_its_column() -> None:
    stated, column = (set_points.log(300, 0, stated=flag) for flag in (True, False))
    assert np.allclose(stated.rewards, column.rewards, atol=1e-12)
    goals = stated.states[:, 4:].reshape(3, 100, 2)
    assert bool((goals == goals[:, :1]).all())


def test_the_engineers_law_holds_both_masses_at_their_set_points() -> None:
    law = set_points.engineers_law(set_points.log(500, 0, stated=True), 1e-3)
    states, forces, rewards = set_points._episodes(law, 20, np.random.default_rng(1))
    assert float(np.abs(states[-1, :, :2] - states[-1, :, 4:]).max()) < 0.05
    assert rewards.sum(axis=0).mean() > 800
    assert float(np.abs(forces).max()) == 1.0


def test_published_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"DMSD-train\.npz does not exist"):
        TASKS["DMSD"].log(tmp_path, 500, stated=True)
