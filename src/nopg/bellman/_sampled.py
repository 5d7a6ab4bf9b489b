"""A stochastic gradient: a few paths, with the values of the equation at their ends."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nopg._seeding import generator
from nopg.bellman._estimate import Clock, GradientEstimate
from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._multistep_terms import acting
from nopg.bellman._path_gradient import path_gradient
from nopg.errors import ArgumentError
from nopg.models._rollout import rollout
from nopg.policies import Deterministic, Policy

__all__ = ["SampledGradient"]

# Paths of an estimate from each of the starts, where the first controller went, and logged states; and
# estimates from one solution of the equation to the next.
_PATHS, _EVERY = 32, 10


class SampledGradient:
    """The gradient of what a few paths return, the equation's values at their ends held fixed.

    Each path follows a random part of the model, with noise where the plant has it. Those from the starts are
    what the controller is judged by; those from where it goes, and from logged states, keep it good there.

    Args:
        problem: The equation. It is solved in every tenth estimate.
        visited: States where the controller goes at first, shape (v, d_s).
    """

    def __init__(self, problem: MultistepProblem, visited: torch.Tensor) -> None:
        self.problem = problem
        self._pools = [pool for pool in (problem.starts, visited, problem.data.states) if len(pool)]
        self._count, self._numbers = 0, torch.zeros(2, dtype=torch.float64)
        self._values = torch.zeros(problem.num_parts, len(problem.nodes), dtype=torch.float64)

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy, and the return by the last solution of the equation."""
        del rng  # every estimate has its own
        clock, problem = Clock(), self.problem
        if self._count % _EVERY == 0:
            solution = problem.solve(policy)
            self._values = solution.values
            self._numbers = torch.tensor([solution.objective, solution.unknown_mass], dtype=torch.float64)
            clock.lap("solve")
        direction = self._direction(policy, generator(problem.seed, f"paths of update {self._count}"))
        self._count += 1
        clock.lap("gradient")
        expected, unknown = self._numbers.tolist()
        diagnostics = {"unknown_mass": unknown, "products": 0}
        return GradientEstimate(direction, expected, diagnostics, clock.seconds)

    def _direction(self, policy: Policy, rng: torch.Generator) -> tuple[torch.Tensor, ...]:
        problem, model = self.problem, self.problem.model
        picked = [pool[torch.randint(len(pool), (_PATHS,), generator=rng)] for pool in self._pools]
        states = torch.cat(picked)
        N, H = len(states), problem.horizon
        part = torch.randint(problem.num_parts, (N,), generator=rng)

        def normal(columns: int) -> torch.Tensor:
            return torch.randn(H, N, columns, generator=rng, dtype=torch.float64)

        moved = normal(2 * model.num_states).numpy() if problem.noisy else None
        acted = None if isinstance(policy, Deterministic) else normal(policy.num_actions)
        path = rollout(model, acting(policy, acted), states, H, part=part.numpy(), noise=moved, slopes=True)
        for charge in problem.charges:
            path = charge.applied(path, slopes=True)
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
        shapes = {name: tuple(one.shape) for name, one in state.items()}
        expected = {name: tuple(one.shape) for name, one in self.state_dict().items()}
        if shapes != expected or not all(bool(one.isfinite().all()) for one in state.values()):
            raise ArgumentError(f"the values of an ascent have shapes {shapes}; expected are {expected}")
        self._count, self._numbers, self._values = int(state["count"]), state["numbers"], state["values"]
