"""The paper's gradient from 2 000 random transitions, beside the exact one, on a linear plant."""

import matplotlib.pyplot as plt
import numpy as np
import torch

from nopg.envs import LQR, collect_uniform
from nopg.paper import Bandwidths, PaperModel, PaperProblem
from nopg.policies import LinearPolicy

plant = LQR(state_bound=1.2, action_bound=8.0)
data = collect_uniform(plant, 2_000, seed=0)
model = PaperModel(data, Bandwidths.from_values(states=[0.13, 0.23], actions=[1.6, 1.6]))
problem = PaperProblem(model, data.starts, discount=plant.discount)


def exact_return(gains: torch.Tensor) -> torch.Tensor:
    """Return the discounted return (m,) over 30 steps for gains (m, 2), one for each coordinate."""
    x, total = plant.initial(1), torch.zeros(len(gains), dtype=torch.float64)
    for t in range(30):
        total = total + plant.discount**t * plant.reward(x, gains * x, x)
        x = plant.step(x, gains * x)
    return total


figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
first, second = torch.linspace(-9, 0, 91).double(), torch.linspace(-6, 0.5, 66).double()
cost = -exact_return(torch.cartesian_prod(first, second)).reshape(91, 66).T
axes.contourf(first.numpy(), second.numpy(), cost.log10().numpy(), levels=20, cmap="Greys", alpha=0.5)

cosines = []
for point in torch.cartesian_prod(torch.linspace(-8, -1, 8), torch.linspace(-5, 0, 6)).double():
    gains = point[None].clone().requires_grad_()
    (exact,) = torch.autograd.grad(exact_return(gains).sum(), gains)
    (estimate,) = problem.solve(LinearPolicy(point)).gradient()
    cosines.append(torch.cosine_similarity(exact[0], estimate, dim=0).item())
    for gradient, color, width in ((exact[0], "#0072B2", 0.009), (estimate, "#D55E00", 0.004)):
        arrow = (0.55 * gradient / gradient.norm()).tolist()
        axes.quiver(*point.tolist(), *arrow, angles="xy", scale_units="xy", scale=1, color=color, width=width)
print(f"cosine with the exact gradient: median {np.median(cosines):.3f}, least {min(cosines):.2f}")
axes.plot([], [], color="#0072B2", lw=3, label="exact gradient")
axes.plot([], [], color="#D55E00", lw=3, label="the paper's, from data")
axes.plot(-6.394, -3.355, "*", color="black", ms=12, ls="", label="best gains")
axes.set(xlabel="first gain", ylabel="second gain", title="Directions on the plane of gains; dark: high cost")
axes.legend(loc="lower left", framealpha=1)
figure.savefig("docs/figures/gallery/paper-gradient.png", dpi=80)
