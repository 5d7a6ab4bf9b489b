"""What errors of the model on held-out episodes would change in the return of a controller."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.special import stdtrit
from torch import Tensor

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._multistep_solution import MultistepSolution

# Rows of the log that stand for a state of a path, and draws of the noise around a prediction.
_NEAREST, _DRAWS = 8, 6


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """What a controller earns more than predicted, as far as held-out rows can tell.

    The true return exceeds that of a model by Σ γᵗδ along the true paths, where δ = r − r̂ + γ(V(s′) − V(ŝ′))
    is what a step brings more than predicted, in reward and in the value V of where it leads. Here δ is that
    of logged rows, predicted without their group of episodes, and paths are those of the model: each of their
    states is stood for by the nearest rows.
    """

    bias: float  # Σ γᵗδ
    by_group: FloatArray  # what each group of episodes adds beyond its share, (G,)
    by_row: FloatArray = field(default_factory=lambda: np.zeros(1))  # each held-out row, (n,)

    @property
    def standard_error(self) -> float:
        """Of the bias, infinite where there is only one group.

        It is the larger of two: errors of a group may be alike, which groups show; and a few rows may stand
        for most of a path, whose errors cancel within groups by chance.
        """
        G = len(self.by_group)
        by_groups = float(np.square(self.by_group).sum()) * G / (G - 1) if G > 1 else math.inf
        return math.sqrt(max(by_groups, float(np.square(self.by_row).sum())))

    @property
    def certain(self) -> float:
        """The bias as far as chance does not explain it; negative where less is earned than predicted."""
        # A square exceeds what it estimates by its variance.
        return math.copysign(math.sqrt(max(self.bias**2 - self.standard_error**2, 0.0)), self.bias)

    def less(self, other: HeldOutErrors) -> HeldOutErrors:
        """Return what the bias is more than that of another controller on the same rows."""
        return HeldOutErrors(
            self.bias - other.bias, self.by_group - other.by_group, self.by_row - other.by_row
        )

    def __str__(self) -> str:
        """The bias in a sentence that says what it rests on."""
        if (G := len(self.by_group)) < 2:
            return "there are no held-out episodes"
        half = float(stdtrit(G - 1, 0.975)) * self.standard_error  # groups are independent if episodes are
        return (
            f"errors on episodes that the model had not seen would change the return by {self.bias:+.3g}, "
            f"95 % [{self.bias - half:+.3g}, {self.bias + half:+.3g}] by Student's t over {G} groups of "
            "episodes, if errors where the controller goes are like those of the nearest rows"
        )


def held_out_errors(
    solution: MultistepSolution, states: Tensor, actions: Tensor, weights: Tensor
) -> HeldOutErrors:
    """Return the errors along paths under a solution: states (m, d_s), actions, and weights γᵗ of each.

    Weights are over the number of paths.
    """
    model = solution.problem.model
    rows = model.held_out
    if len(torch.unique(rows.groups)) < 2:
        return HeldOutErrors(0.0, np.zeros(1))
    space = model.rows.space
    tree = cKDTree(space.embed(rows.inputs).numpy())
    count = min(_NEAREST, len(rows.inputs))
    _, near = tree.query(space.embed(torch.cat([states, actions], dim=1)).numpy(), k=range(1, count + 1))
    share = np.bincount(near.ravel(), np.repeat(weights.numpy() / count, count), len(rows.inputs))
    some = np.flatnonzero(share)  # rows that stand for a state
    more = _more_value(solution, torch.as_tensor(some))
    gained = rows.reward_errors.numpy()[some] + solution.problem.discount * more.numpy()
    groups, number = rows.groups.numpy()[some], int(rows.groups.max()) + 1
    bias = float(share[some] @ gained)
    apart = share[some] * (gained - bias / max(float(share.sum()), 1e-300))
    by_row = np.zeros(len(share))
    by_row[some] = apart
    by_group = np.bincount(groups, apart, number).astype(np.float64)
    return HeldOutErrors(bias, by_group, by_row)


def _more_value(solution: MultistepSolution, some: Tensor) -> Tensor:
    """Return V(s′) − E V(ŝ′) of some held-out rows (m,), ŝ′ as the sensors would give it; 0 after an end."""
    model, values = solution.problem.model, solution.without_leaving.values[0]
    rows = model.held_out
    before = rows.predicted[some]
    predicted = [before]
    if solution.problem.noisy:
        rng = generator(0, "noise of held-out rows")
        factor, sensors = (torch.as_tensor(part) for part in (model.noise.factor, model.noise.sensors))
        drawn = torch.randn(_DRAWS, 2, *rows.predicted.shape, generator=rng, dtype=torch.float64)[:, :, some]
        w, v = drawn.unbind(dim=1)
        noise = (w @ factor.T) * rows.disturbances[some] + v * sensors
        predicted = [*(before + noise), *(before - noise)]
    states = torch.cat([rows.next_states[some], *predicted])
    found = solution.problem.nodes.value(states, values)
    ended = torch.zeros(len(states), dtype=torch.bool)
    if not model.termination.never:
        ended = model.termination.ended(states)
    ended[: len(some)] = rows.terminated[some]
    measured, *guessed = torch.where(ended, 0.0, found).split(len(some))
    more: Tensor = measured - torch.stack(guessed).mean(dim=0)
    return more
