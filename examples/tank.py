"""A tank: from the CSV file of a PI loop to a controller, predicted and then run."""

import matplotlib.pyplot as plt
import numpy as np

import nopg

data = nopg.read_csv(
    "examples/tank.csv",
    states=["level"],
    actions=["valve"],
    episode="episode",
    time="time",
    reward="-(level - 1)**2 - 0.05*(valve - 0.35)**2",
)
result = nopg.optimize(data, discount=0.95)
print(data, result, sep="\n")


def run_tank(level: float, steps: int) -> list[float]:
    """Return the levels of the true tank, which training has never seen."""
    levels = [level]
    for _ in range(steps):
        valve = float(result.policy([levels[-1]])[0])
        levels.append(levels[-1] + 0.3 * valve - 0.105 * np.sqrt(levels[-1]))
    return levels


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
minutes, predicted = np.arange(31) / 6, result.evaluation.paths.states[:31, :, 0]
for k, start in enumerate(data.starts[:, 0].tolist()):
    names = ["_"] * 3 if k else ["logged, other set points", "predicted", "then run"]
    left.plot(minutes, data.states[data.episodes == k, 0][:31], color="0.85", label=names[0])
    left.plot(minutes, run_tank(start, 30), color="#D55E00", lw=3, alpha=0.6, label=names[2])
    left.plot(minutes, predicted[:, k], "--", color="#0072B2", label=names[1])
left.set(xlabel="time in min", ylabel="level in m", xlim=(0, 5), title="To 1 m from the eight logged starts")
left.legend(frameon=False, loc="upper right")

levels = np.linspace(0.3, 1.8, 100)[:, None]
right.plot(data.states[::3, 0], data.actions[::3, 0], ".", color="0.85", ms=4, label="logged")
right.plot(levels, result.policy(levels), color="#D55E00", lw=2, label="learned")
right.set(xlabel="level in m", ylabel="valve", title="The valve as a function of the level")
right.legend(frameon=False, loc="upper right")
figure.savefig("docs/figures/gallery/tank.png", dpi=80)
