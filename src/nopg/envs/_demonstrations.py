"""The synthetic demonstrations of the mountain car that are shipped with nopg."""

from importlib.resources import files

import numpy as np

from nopg.data import Transitions


def synthetic_demonstrations() -> Transitions:
    """Return ten synthetic demonstrations of the mountain car, with a reward of −1 per step.

    A scripted operator with delays, pauses and wrong actions made them (`studies/clumsy_operator.py` in the
    repository), in place of the ten recordings of the paper's human demonstrator. All ten reach the goal
    within the paper's limit of 500 steps.

    Example:
        >>> data = synthetic_demonstrations()
        >>> int(data.terminated.sum()), len(data.starts)
        (10, 10)
    """
    text = files("nopg.envs").joinpath("synthetic_mountain_car.csv").read_text(encoding="utf-8")
    names, *rows = (line for line in text.splitlines() if not line.startswith("#"))
    table = np.loadtxt(rows, delimiter=",", dtype=np.float64)
    columns = dict(zip(names.split(","), table.T, strict=True))

    return Transitions.from_arrays(
        np.stack([columns["position"], columns["velocity"]], axis=1),
        columns["throttle"],
        columns["reward"],
        np.stack([columns["next_position"], columns["next_velocity"]], axis=1),
        terminated=columns["terminated"].astype(bool),
        truncated=columns["truncated"].astype(bool),
        episodes=columns["episode"].astype(np.int64),
        state_names=("position", "velocity"),
        action_names=("throttle",),
    )
