"""What several tests of trainings share."""

import pytest

from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid


@pytest.fixture(scope="session")
def grid() -> Transitions:
    return collect_grid(Pendulum(), (8, 8, 2))
