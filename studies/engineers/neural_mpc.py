"""Model-predictive control on an ensemble of neural models, by the cross-entropy method."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.baselines import NeuralConfig
from nopg.baselines._neural import Ensemble
from studies.plants.laws import Law


@dataclass(frozen=True, slots=True)
class NeuralMPCConfig:
    """Settings, chosen on development plants."""

    horizon: int = 20  # Steps of a plan.
    candidates: int = 48  # Plans that are drawn in each iteration, for each episode.
    elites: int = 6  # Best of them, to which the next distribution is fitted.
    iterations: int = 3  # Rounds of the cross-entropy method at each step.
    spread: float = 0.12  # Standard deviation of the first draws, as a share of the logged range of actions.
    models: NeuralConfig = field(default_factory=NeuralConfig)  # Settings of the ensemble.


class NeuralMPC:
    """Plans at every step on the mean return of an ensemble, and applies the first action.

    Actions stay within the logged range. The plan of the step before, moved by one step, begins the next
    search. A plan has no value beyond its horizon.
    """

    def __init__(
        self, data: Transitions, discount: float, seed: int, config: NeuralMPCConfig | None = None
    ) -> None:
        self.config = NeuralMPCConfig() if config is None else config
        self._seed, self._discount = seed, discount
        self._models = Ensemble(data, self.config.models, generator(seed, "neural model"))

    def controller(self, episodes: int) -> Law:
        """Return the controller of episodes that run side by side; it keeps their plans."""
        models, config = self._models, self.config
        rng = generator(self._seed, "plans")
        middle = (models.action_low + models.action_high) / 2
        plans = middle.expand(episodes, config.horizon, -1).clone()

        def act(states: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            nonlocal plans
            with torch.no_grad():
                plans = self._improved(torch.as_tensor(states, dtype=torch.float32), plans, rng)
            first = plans[:, 0].numpy().astype(np.float64)
            plans = torch.cat([plans[:, 1:], plans[:, -1:]], 1)
            return first

        return act

    def _improved(self, states: torch.Tensor, plans: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Return better plans (m, horizon, d_a) from states (m, d_s)."""
        models, config = self._models, self.config
        mean, deviation = (
            plans,
            config.spread * (models.action_high - models.action_low) * torch.ones_like(plans),
        )
        for _ in range(config.iterations):
            draws = torch.randn(len(plans), config.candidates, *plans.shape[1:], generator=rng)
            drawn = mean[:, None] + deviation[:, None] * draws
            drawn = torch.cat([mean[:, None], drawn[:, 1:]], 1).clamp(models.action_low, models.action_high)
            best = self._returns(states, drawn).topk(config.elites, dim=1).indices
            chosen = drawn.gather(1, best[:, :, None, None].expand(-1, -1, *plans.shape[1:]))
            mean, deviation = chosen.mean(1), chosen.std(1)
        return mean

    def _returns(self, states: torch.Tensor, plans: torch.Tensor) -> torch.Tensor:
        """Return the mean returns (m, candidates) over the models of plans (m, candidates, horizon, d_a)."""
        m, candidates, horizon, _ = plans.shape
        members = self.config.models.members
        moved = states.repeat_interleave(candidates, 0).expand(members, -1, -1)
        total, alive = torch.zeros(members, m * candidates), torch.ones(members, m * candidates)
        for t in range(horizon):
            actions = plans[:, :, t].reshape(m * candidates, -1).expand(members, -1, -1)
            moved, rewards, ending = self._models.step(moved, actions)
            total = total + self._discount**t * alive * rewards
            alive = alive * (1 - ending)
        return total.mean(0).reshape(m, candidates)
