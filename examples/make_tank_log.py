"""Write examples/tank.csv, the log of the README: `python examples/make_tank_log.py`.

A tank with an outlet is filled by a valve under a PI controller whose set point changes, with a dither on the
valve: 8 episodes of 60 steps of 10 s. The cost is that of leaving a level of 1 m, and of moving the valve.
"""

import csv
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "tank.csv"


def main() -> None:
    """Simulate the tank and write the log."""
    rng = np.random.default_rng(0)
    with FILE.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["episode", "time", "level", "valve", "cost"])
        for episode in range(8):
            level, integral = rng.uniform(0.3, 1.7), 0.0
            set_points = rng.uniform(0.4, 1.6, size=3)
            for step in range(60):
                error = set_points[step // 20] - level
                integral += 0.02 * error
                valve = float(np.clip(0.35 + 0.5 * error + integral + 0.08 * rng.standard_normal(), 0.0, 1.0))
                cost = (level - 1.0) ** 2 + 0.05 * (valve - 0.35) ** 2
                table.writerow([episode, 10 * step, f"{level:.5f}", f"{valve:.5f}", f"{cost:.6f}"])
                inflow = 0.3 * (valve - 0.35 * np.sqrt(level))
                level = max(level + inflow + 0.002 * rng.standard_normal(), 0.0)


if __name__ == "__main__":
    main()
