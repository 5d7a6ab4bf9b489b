"""Make the log of two tanks that the plant tutorial reads, as a historian would export it.

A PI controller holds the level of the lower tank. The operators change the set point, and the pump's voltage
gets small steps up and down on top, held for half a minute, so that the log shows what another voltage does.
The levels are read with noise and to a tenth of a millimetre, by the controller as by the historian.

    python examples/make_two_tanks_log.py --output two-tanks.csv
"""

import argparse
from datetime import datetime, timedelta
from pathlib import Path

import torch

from nopg._seeding import generator
from nopg.envs import TwoTanks, level_controller

RUNS, STEPS, SEED = 50, 50, 0
NOISE = 0.02  # cm, standard deviation of a reading
STEP, HOLD = 1.0, 3  # V, and time steps of 10 s
FIRST, BETWEEN = datetime(2025, 3, 3, 8, 0), timedelta(minutes=15)
COLUMNS = "time,run,upper,lower,set_point,voltage,reward"


def make_log(runs: int = RUNS, steps: int = STEPS, seed: int = SEED, step: float = STEP) -> str:
    """Return the log as CSV: one row per reading, `steps + 1` readings in each run."""
    tanks = TwoTanks()
    states = tanks.initial(runs, rng=generator(seed, "initial states"))
    states[:, 2] = (2 * states[:, 2]).round() / 2  # set points that an operator types
    controller = level_controller(tanks)
    excitation, noise = generator(seed, "steps"), generator(seed, "noise")

    rows = []
    for t in range(steps + 1):
        read = states.clone()
        read[:, :2] += NOISE * torch.randn(runs, 2, dtype=torch.float64, generator=noise)
        read[:, :2] = read[:, :2].clamp(min=0.0).round(decimals=2)
        if t % HOLD == 0:
            push = step * (2 * torch.rand(runs, 1, dtype=torch.float64, generator=excitation) - 1)
        voltages = tanks.applied(controller(read) + push).round(decimals=3)
        rewards = tanks.reward(read, voltages, read)
        for run, numbers in enumerate(torch.cat([read, voltages, rewards[:, None]], dim=1).tolist()):
            rows.append((run, t, numbers))
        states = tanks.step(states, voltages)

    lines = [_line(run, t, numbers, tanks.time_step) for run, t, numbers in sorted(rows)]
    return "\n".join([COLUMNS, *lines]) + "\n"


def _line(run: int, t: int, numbers: list[float], time_step: float) -> str:
    upper, lower, set_point, voltage, reward = numbers
    time = FIRST + run * BETWEEN + timedelta(seconds=t * time_step)
    return f"{time},{run},{upper:.2f},{lower:.2f},{set_point:.1f},{voltage:.3f},{reward:.6f}"


def main() -> None:
    """Make the log and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/tutorials/two-tanks.csv"))
    options = parser.parse_args()
    options.output.write_text(make_log(), encoding="utf-8")
    print(f"{RUNS} runs of {STEPS + 1} readings → {options.output}")


if __name__ == "__main__":
    main()
