"""A pendulum whose motor cannot lift it: a swing-up from 450 single steps, none of which is one."""

import math

import matplotlib.pyplot as plt
import numpy as np

import nopg
from nopg.envs import Pendulum, collect_grid, simulate

plant = Pendulum()
data = collect_grid(plant, points=(15, 15, 2))  # angles, velocities, torques
result = nopg.optimize(data, discount=0.97)
run = simulate(plant, result.policy, steps=200)
print(result, f"measured {run.discounted_returns(0.97).item():.1f}", sep="\n")

angles, speeds = np.linspace(-math.pi, math.pi, 91), np.linspace(-8, 8, 61)
states = np.stack(np.meshgrid(angles, speeds), axis=-1).reshape(-1, 2)
angle, speed = run.states[:, 0].numpy().T
wrapped = np.remainder(angle + math.pi, 2 * math.pi) - math.pi
wrapped[1:][np.abs(np.diff(wrapped)) > math.pi] = math.nan  # no line across the picture

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
torque = np.asarray(result.policy(states)).reshape(61, 91)
shades = left.pcolormesh(angles, speeds, torque, cmap="PuOr", rasterized=True)
figure.colorbar(shades, ax=left, label="torque in N m")
left.plot(*data.states.T, ".", color="0.6", ms=1.5)
left.plot(wrapped, speed, color="white", lw=3)
left.plot(wrapped, speed, color="black", lw=1.4)
left.set(xlabel="angle in rad, 0 upright", ylabel="velocity in rad/s", title="Controller, and where it goes")

seconds, predicted = plant.time_step * np.arange(99), result.evaluation.paths.states[:99, 0, 0]
right.plot(seconds, angle[:99], color="#D55E00", lw=2.5, alpha=0.6, label="run")
right.plot(seconds, predicted, "--", color="#0072B2", label="predicted")
right.set(xlabel="time in s", title="From hanging to upright")
right.set_yticks([0, math.pi, 2 * math.pi], ["upright", "hanging", "upright"])
right.legend(frameon=False)
figure.savefig("docs/figures/gallery/pendulum.png", dpi=90)
