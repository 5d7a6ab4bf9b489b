"""Where a task starts, in words."""

from typing import Any

import numpy as np
import pytest

from nopg.data import Transitions, start_note


def tank(**settings: Any) -> Transitions:
    levels = np.arange(7.0)
    states = np.stack([levels, np.full(7, 3.0)], axis=1)
    return Transitions.from_arrays(
        states[:-1], np.zeros(6), np.zeros(6), states[1:], state_names=["level", "goal"], **settings
    )


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"initial_states": [[0.0, 3.0]] * 2}, "the task starts in 2 declared states"),
        ({"initial_states": [[0.0, 3.0]]}, "the task starts in 1 declared state"),
        ({"episodes": [0, 0, 1, 1, 2, 2]}, "the task starts in the first rows of 3 episodes"),
        (
            {"episodes": [0] * 6, "terminated": [0, 0, 0, 0, 0, 1]},
            "the task starts in the first row of 1 episode",
        ),
        ({"begins": [0, 1, 0, 1, 0, 0]}, "the task starts in 2 rows of the log"),
        ({"begins": [1] * 6}, "every row is a start: a controller may take over at any time"),
        ({"episodes": [0] * 6}, "every row is a start: a controller may take over at any time"),
        ({}, "every row is a start: a controller may take over at any time"),
        (
            {"episodes": [0, 0, 0, 1, 1, 1], "exogenous": {"goal": "hold", "level": "log"}},
            "the task starts in the first rows of 2 episodes; goal is held within an episode; "
            "level moves as in the log",
        ),
    ],
)
def test_the_note_names_the_kind_and_number_of_starts(settings: dict[str, Any], note: str) -> None:
    assert start_note(tank(**settings)) == note
