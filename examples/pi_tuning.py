"""A heater with a dead time: better gains for its PI controller, from the log of that controller."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nopg
from nopg.policies import ControlStructure

rng = np.random.default_rng(0)


def run(goals: list[float], test: float = 0.0, controller: Any = None) -> pd.DataFrame:
    """Return a row per minute: 0.8 °C per % of heating, a lag of 10 minutes, a dead time of 2."""
    temperature, integral, heater, rows = 40.0, 50.0, [50.0] * 2, []
    pushes = np.repeat(test * rng.uniform(-1, 1, len(goals)), 10)  # test steps of ten minutes
    for t, goal in enumerate(goals):
        integral += 0.05 * (goal - temperature)
        wanted = goal - temperature + integral + pushes[t]  # a PI controller with low gains
        wanted = controller.act([temperature, goal])[0] if controller else wanted
        heater.append(float(np.clip(wanted, 0, 100)))
        rows.append((60 * t, temperature, goal, heater[-1]))
        temperature += (0.8 * heater[-3] - temperature) / 10 + 0.05 * rng.standard_normal()
    return pd.DataFrame(rows, columns=["time", "temperature", "goal", "heater"])


log = run(rng.uniform(30, 60, 40).repeat(30).tolist(), test=15)
reward = "-(temperature - goal)**2 - 0.4*diff(heater)**2"
data = nopg.from_dataframe(
    log, states=["temperature"], exogenous=["goal"], actions=["heater"], time="time", reward=reward
).derive(lags={"heater": 2})  # for the dead time
pi = ControlStructure("pi", follows={"temperature": "goal"})
result = nopg.optimize(data, 0.95, policy=pi, config=nopg.TrainingConfig(updates=30))
print(data, result, result.policy.policy.gains, sep="\n")

tuned, goals = result.policy.stream(), [40.0] * 3 + [50.0] * 47 + [45.0] * 40
tuned.reset(applied=[50.0])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for name, color, controller in (("logged", "0.6", None), ("tuned", "#D55E00", tuned)):
    one = run(goals, controller=controller)
    left.plot(one["temperature"], color=color, label=f"{name} gains")
    right.step(range(90), one["heater"], color=color, where="post")
left.step(range(90), goals, color="0.3", lw=0.8, ls=":", where="post", label="set point")
left.set(xlabel="time in min", ylabel="temperature in °C", title="Two changes of the set point")
left.legend(frameon=False)
right.set(xlabel="time in min", ylabel="heating in %", title="What the heater does")
figure.savefig("docs/figures/gallery/pi-tuning.png", dpi=90)
