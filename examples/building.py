"""A room: from two weeks of a thermostat to a controller that heats before people come."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nopg

LOGGED, END = 14 * 48, 17 * 48  # days of 48 steps of half an hour
PEOPLE = "cos((hour - 13) * 0.2618) > 0.25"  # from 8 to 18; a formula that is periodic in the hour
REWARD = f"-heat - 2 * max(21 - room, 0)**2 * ({PEOPLE})"
rng, step = np.random.default_rng(0), np.arange(END)
hour = step / 2 % 24
outdoor = 5 - 5 * np.cos((hour - 3) * np.pi / 12) + 5 * np.sin(step / 140)
goal = np.where((hour >= 7) & (hour < 18), 21.0, 17.0)  # of the thermostat
goal[:LOGGED] += rng.uniform(-1.5, 1.5, LOGGED // 4).repeat(4)  # test steps of two hours in the log


def run(first: int, last: int, controller: Any = None) -> nopg.Transitions:
    """Return the log of a room, which begins at 17 °C."""
    room, rows = 17.0, []
    for t in range(first, last):
        wanted = controller([room, hour[t], outdoor[t]])[0] if controller else 0.4 + 0.5 * (goal[t] - room)
        rows.append((room, hour[t], outdoor[t], float(np.clip(wanted, 0, 1))))
        room += 0.06 * (outdoor[t] - room) + 1.8 * rows[-1][-1]
    log, angles = pd.DataFrame(rows, columns=["room", "hour", "outdoor", "heat"]), {"hour": 24.0}
    return nopg.from_dataframe(
        log, states=["room", "hour"], exogenous=["outdoor"], actions=["heat"], angles=angles, reward=REWARD
    )


data = run(0, LOGGED)
result = nopg.optimize(data, discount=0.95)
print(data, result, sep="\n")

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 4), layout="constrained", sharex=True)
for name, color, controller in (("thermostat", "0.6", None), ("learned", "#D55E00", result.policy)):
    log = run(LOGGED, END, controller)
    days = np.arange(len(log)) / 48
    top.plot(days, log.states[:, 0], color=color, label=f"{name}, cost {-log.rewards.sum():.0f}")
    bottom.step(days, log.actions[:, 0], color=color, where="post")
for day in range(3):
    top.axvspan(day + 8 / 24, day + 18 / 24, color="#0072B2", alpha=0.1, lw=0, label="_" if day else "people")
top.axhline(21, color="0.3", lw=0.8, ls=":")
top.set(ylabel="room in °C", ylim=(12, 25), title="Three days after the log")
top.legend(frameon=False, ncols=3, loc="upper center")
bottom.set(xlabel="time in days", ylabel="heating", xlim=(0, 3))
figure.savefig("docs/figures/gallery/building.png", dpi=90)
