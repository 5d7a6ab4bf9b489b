"""A stochastic gradient: a few paths, with the values of the equation at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from nopg._seeding import generator
from nopg.bellman._nodes import Interpolation
from nopg.bellman._problem import GradientEstimate
from nopg.models._rollout import Rollout, rollout
from nopg.policies import Deterministic, Policy
from nopg.policies._policy import policy_gradient

if TYPE_CHECKING:
    from nopg.bellman._multistep import MultistepProblem

# Paths of an estimate from each of the starts, where the first controller went, and logged states; and
# estimates from one solution of the equation to the next.
_PATHS, _EVERY = 32, 10


class SampledGradient:
    """The gradient of what a few paths return, the equation's values at their ends held fixed.

    Each path follows a random part of the model, with noise where the plant has it. Those from the starts are
    what the controller is judged by; those from where it goes at first, `visited` (v, d_s), and from logged
    states, keep it good there. The equation is solved in every tenth estimate, and after a change.
    """

    def __init__(self, problem: MultistepProblem, visited: torch.Tensor) -> None:
        self.problem = problem
        starts, rows = problem.few_starts, problem.model.rows
        logged = problem.data.states[rows.first[rows.sample]], rows.weights[rows.sample]
        pools = (starts.states, starts.weights), (visited, torch.ones(len(visited)).double()), logged
        self._pools = [(states, weights.cumsum(dim=0)) for states, weights in pools if len(states)]
        self._count, self._solved, self._numbers = 0, False, torch.zeros(2, dtype=torch.float64)
        self._values = torch.zeros(problem.num_parts, len(problem.nodes), dtype=torch.float64)

    def change(self, problem: MultistepProblem) -> None:
        """Go on with other charges, or another value of leaving the data."""
        self.problem, self._solved = problem, False

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy, and the return by the last solution of the equation."""
        del rng  # every estimate has its own
        problem = self.problem
        if self._count % _EVERY == 0 or not self._solved:
            solution = problem.solve(policy)
            self._values, self._solved = solution.values, True
            self._numbers = torch.tensor([solution.objective, solution.unknown_mass], dtype=torch.float64)
        direction = self._direction(policy, generator(0, f"paths of update {self._count}"))
        self._count += 1
        expected, unknown = self._numbers.tolist()
        return GradientEstimate(direction, expected, {"unknown_mass": unknown})

    def _direction(self, policy: Policy, rng: torch.Generator) -> tuple[torch.Tensor, ...]:
        problem, model = self.problem, self.problem.model
        drawn = []
        for pool, sums in self._pools:
            places = torch.rand(_PATHS, generator=rng, dtype=torch.float64) * sums[-1]
            drawn.append(pool[torch.searchsorted(sums, places).clamp(max=len(pool) - 1)])
        states = torch.cat(drawn)
        N, H = len(states), problem.horizon
        part = torch.randint(problem.num_parts, (N,), generator=rng)

        def normal(columns: int) -> torch.Tensor:
            return torch.randn(H, N, columns, generator=rng, dtype=torch.float64)

        moved = normal(2 * model.num_states).numpy() if problem.noisy else None
        acted = None if isinstance(policy, Deterministic) else normal(policy.num_actions)
        act = problem.acting(policy, acted)
        path = rollout(model, act, states, H, part=part.numpy(), noise=moved, slopes=True)
        path = problem.charged(path)
        ends = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        return path_gradient(
            problem,
            policy,
            path,
            ends=ends,
            values=self._values[part[:, None], ends.near],
            weights=torch.full((N,), 1.0 / N, dtype=torch.float64),
            noise=acted,
        )

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return all of the past that the next estimate depends on."""
        return {"count": torch.tensor(self._count), "numbers": self._numbers, "values": self._values}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        self._count, self._numbers, self._values = int(state["count"]), state["numbers"], state["values"]
        self._solved = True


def path_gradient(
    problem: MultistepProblem,
    policy: Policy,
    path: Rollout,
    *,
    ends: Interpolation,
    values: torch.Tensor,
    weights: torch.Tensor,
    noise: torch.Tensor | None,
) -> tuple[torch.Tensor, ...]:
    """Return the derivative of weighted returns of paths by the policy's trainable parameters.

    The chain rule runs backwards through the steps in closed form; the policy is differentiated once, at all
    states of all paths. Values (N, k) of the nodes at their ends are held fixed. The weights (N,) are of the
    paths, the noise (T, N, d_a) is what the policy drew its actions with; None for its mode.
    """
    gamma, v = problem.discount, problem.unknown_value
    T, N, d_s = path.states[:-1].shape
    states = torch.as_tensor(path.measured[:-1].reshape(T * N, d_s)).requires_grad_()
    features = problem.model.data.schema.encode(states)
    if noise is None:
        actions = policy.mode(features)
    else:
        actions = policy.actions(features, noise[:T].reshape(1, T * N, -1))[0]
    by_state = np.stack(
        [
            torch.autograd.grad(column.sum(), states, retain_graph=True)[0].numpy().reshape(T, N, d_s)
            for column in actions.unbind(dim=1)
        ],
        axis=1,
    ).transpose(0, 1, 3, 2)
    G, alive, _ = path.value(gamma, v, ends.values(values).numpy())
    slopes = path.action_slopes(gamma, v, G, tail_slope=ends.slopes(values).T.numpy(), by_state=by_state)
    weight = gamma ** np.arange(T)[:, None] * alive[:-1] * weights.numpy()
    cotangent = torch.as_tensor((weight[:, :, None] * slopes).reshape(T * N, -1))
    return policy_gradient(policy, [actions], [cotangent])
