"""A car in a valley: from two clumsy drives to one that takes a quarter of the time."""

import matplotlib.pyplot as plt
import numpy as np
import torch

import nopg
from nopg.envs import MountainCar, simulate

drives = nopg.read_csv(
    "examples/mountain-car.csv",
    states=["position", "velocity"],
    actions=["throttle"],
    next_states=["next_position", "next_velocity"],
    reward="reward",
    episode="episode",
    terminated="terminated",
    truncated="truncated",
)
data = drives.take(torch.arange(683))  # the first two drives
result = nopg.optimize(data, discount=0.99, config=nopg.TrainingConfig(updates=20))
run = simulate(MountainCar(), result.policy, steps=200, initial_states=data.starts)
print(data, result, f"steps to the goal: {run.alive.sum(dim=0).tolist()}", sep="\n")

positions, speeds = np.linspace(-1.2, 0.6, 61), np.linspace(-0.07, 0.07, 41)
states = np.stack(np.meshgrid(positions, speeds), axis=-1).reshape(-1, 2)
throttle = np.asarray(result.policy(states)).reshape(41, 61)
path = run.states[: int(run.alive[:, 0].sum()) + 1, 0].numpy()

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
shades = left.contourf(positions, speeds, throttle, [-1, -0.3, 0.3, 1], cmap="PuOr", alpha=0.6)
figure.colorbar(shades, ax=left, label="throttle", ticks=[-1, 0, 1])
for k in range(2):
    drive = [data.states[:280], data.states[280:]][k]
    left.plot(*drive.T, color="0.4", lw=0.8)
    right.plot(drive[:, 0], color="0.6", label="_" if k else "two recorded drives")
left.plot(*path.T, color="white", lw=4)
left.plot(*path.T, color="black", lw=2)
left.set(xlabel="position", ylabel="velocity per step", title="Learned driver")
right.plot(path[:, 0], color="black", lw=2, label="learned")
right.axhline(0.45, color="#009E73", ls=":", label="goal")
right.set(xlabel="step", ylabel="position", title="To the goal", ylim=(-1.3, 1.5))
right.legend(frameon=False, loc="upper right")
figure.savefig("docs/figures/gallery/mountain-car.png", dpi=72)
