"""A pole on a cart: from twenty falls under random voltages to a controller that balances it."""

import matplotlib.pyplot as plt
import torch

import nopg
from nopg.envs import CartPole, UniformAgent, collect, simulate

plant = CartPole(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5)
data = collect(plant, UniformAgent(), episodes=20, steps=1000, seed=0)
result = nopg.optimize(data, discount=0.99, config=nopg.TrainingConfig(updates=20))
starts = plant.initial(8, rng=torch.Generator().manual_seed(1))
run = simulate(plant, result.policy, steps=1000, initial_states=starts)
print(data, result, f"{int(run.alive[-1].sum())} of 8 poles stand after 20 s", sep="\n")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for fall in range(20):
    angle = data.next_states[data.episodes == fall, 1].rad2deg()
    left.plot(
        torch.arange(1, len(angle) + 1) / 50, angle, color="0.75", label="_" if fall else "logged falls"
    )
seconds = torch.arange(1001) / 50
left.plot(seconds, run.states[:, :, 1].rad2deg(), color="#D55E00", alpha=0.7)
left.plot([], [], color="#D55E00", label="learned, eight other starts")
left.axhspan(14.3, 20, color="0.93", lw=0)
left.axhspan(-20, -14.3, color="0.93", lw=0)
left.set(xlabel="time in s", ylabel="angle of the pole in degrees", xlim=(0, 1.5), ylim=(-20, 20))
left.set_title(f"{len(data)} logged rows, {len(data) / 50:.1f} s")
left.legend(frameon=False, loc="upper right")

right.plot(seconds, 100 * run.states[:, :, 0], color="#D55E00", alpha=0.7)
right.set(xlabel="time in s", ylabel="position of the cart in cm", xlim=(0, 20), ylim=(-5, 5))
right.set_title("The cart in these eight runs")
figure.savefig("docs/figures/gallery/cart-pole.png", dpi=80)
