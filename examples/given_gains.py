"""Off-policy evaluation: the cost of gains that never ran, from the log of another controller."""

import matplotlib.pyplot as plt
import torch

from nopg.envs import ControlLaw, Pendulum, simulate
from nopg.evaluation import OfflineEvaluator

plant, rng = Pendulum(), torch.Generator().manual_seed(0)
GAINS = (3, 4, 5, 6, 8, 12, 16, 24)  # the log has 8


def controller(gain: float, noise: float = 0.0) -> ControlLaw:
    """Return the torque −gain·angle − velocity, with noise."""
    k = torch.tensor([[gain], [1.0]], dtype=torch.float64)
    return lambda s: (noise * torch.randn(len(s), 1, generator=rng) - s @ k).clamp(-2, 2)


def starts(count: int) -> torch.Tensor:
    """Return states near upright."""
    return torch.tensor([0.25, 0.5]) * (2 * torch.rand(count, 2, generator=rng, dtype=torch.float64) - 1)


log = simulate(plant, controller(8, noise=0.5), steps=30, initial_states=starts(30)).transitions(plant)
data = log.with_reward("-angle**2 - 0.1*velocity**2 - 0.001*torque**2")
evaluator, new = OfflineEvaluator(data, 0.95), starts(1000)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for gain in GAINS:
    found = evaluator.assess(controller(gain))
    true = simulate(plant, controller(gain), steps=200, initial_states=new).discounted_returns(0.95).mean()
    print(f"gain {gain}: {found}, true return {true:.3f}")
    color = "#0072B2" if found.verdict == "ok" else "0.4"
    name = {4: "predicted, not identifiable", 5: "predicted, ok"}.get(gain, "_")
    right.plot([gain, gain], [-end for end in found.interval], color=color, lw=6, alpha=0.3)
    right.plot(gain, -found.expected_return, "o", color=color, ms=4, label=name)
    right.plot(gain, -true, "x", color="#D55E00", mew=2, label="then run" if gain == 24 else "_")
    if gain == 4:
        paths = found.paths.states[:, :30:4]
        run = simulate(plant, controller(gain), steps=len(paths) - 1, initial_states=paths[0])
        left.plot(run.states[:, :, 0], color="#D55E00", lw=3, alpha=0.6)
        left.plot(paths[:, :, 0], "--", color="#0072B2")
right.set(xlabel="gain", ylabel="discounted cost", xscale="log", yscale="log", title="With 95 % intervals")
right.set_xticks(GAINS, [f"{gain}" for gain in GAINS])
right.minorticks_off()
right.legend(frameon=False)
left.axhspan(*data.states[:, 0].aminmax(), color="0.85", label="logged range, gain 8")
left.set(xlabel="step", ylabel="angle in rad, 0 upright", title="Gain 4 is too low")
left.legend(frameon=False, loc="upper left")
figure.savefig("docs/figures/gallery/given-gains.png", dpi=90)
