"""The full policy gradient of the nonparametric Bellman equation (`equation:algorithmicgradient`)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch

from nopg.bellman._equation import BellmanEquation
from nopg.bellman._estimate import Clock, GradientEstimate
from nopg.bellman._paper_terms import PaperTerms
from nopg.bellman._solution import BellmanSolution
from nopg.linalg import Auto, Solver
from nopg.policies import Policy
from nopg.policies._policy import trainable

# The residual to begin with, and between which bounds it follows the gradient.
_FIRST_TOLERANCE, _TIGHTEST, _LOOSEST = 1e-3, 1e-8, 1e-2
# An error of the direction beyond which to tighten, and one below which to relax by a factor.
_LARGE_ERROR, _SMALL_ERROR, _LOOSER = 2e-2, 1e-3, 3.0
_CHECKED_EVERY = 50


def solution_gradient(solution: BellmanSolution) -> tuple[torch.Tensor, ...]:
    """Return ∂Ĵ/∂θ = (∂ε₀/∂θ)ᵀq + γμᵀ(∂P/∂θ)q, by action gradients and one product through the policy.

    With q and μ held fixed the chain rule stops at the actions: ∂Ĵ/∂aᵢ = wᵢ ∂Vᵢ/∂aᵢ, where wᵢ = γμᵢ for
    the states that nodes lead to (0 after a terminal), shared by the g queries of a node, and 1/n₀ for
    initial states. No tape is kept over the n·K weights.
    """
    equation, q = solution.equation, solution.q
    problem, v = equation.problem, equation.problem.unknown_value
    model, initial = problem.model, problem.initial

    w = equation.discount * solution.mu * model.continues / model.group_size
    node_gradient = model.node_queries.action_gradient(equation.at_nodes.actions, equation.node_backup, q, v)
    node_gradient *= w.repeat_interleave(model.group_size)[:, None]
    initial_gradient = initial.action_gradient(equation.at_starts.actions, equation.initial_backup, q, v)
    initial_gradient /= problem.num_initial

    parts = zip(
        equation.at_nodes.gradient(node_gradient),
        equation.at_starts.gradient(initial_gradient),
        strict=True,
    )
    return tuple(of_nodes + of_starts for of_nodes, of_starts in parts)


class NOPG:
    """The paper's estimator: solve the equation, follow its exact gradient.

    The policy stays in its own precision and on its device; where the model's are others, a copy acts and is
    differentiated there, and the direction comes back.

    Args:
        problem: Model, initial states, discount.
        solver: Of the linear systems.
        tolerance: Relative residual of the solves. By default it follows the gradient: now and then an
            estimate is repeated with a tenth of the residual, and the tolerance tightened where that changes
            the direction by more than 2 %, or relaxed where it hardly changes it.
        warm_start: Whether to start each solve from the last solution.
    """

    def __init__(
        self,
        problem: PaperTerms,
        *,
        solver: Solver | None = None,
        tolerance: float | None = None,
        warm_start: bool = True,
    ) -> None:
        self.problem, self.solver = problem, solver or Auto()
        self.tolerance, self.warm_start = _FIRST_TOLERANCE if tolerance is None else tolerance, warm_start
        self._follows = tolerance is None
        self._until_checked = 0
        self._start: tuple[torch.Tensor, torch.Tensor] | None = None
        self._last: BellmanEquation | None = None
        self._actor: Policy | None = None

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; the noise of its actions comes from the generator."""
        clock = Clock()
        # Nobody else has seen the last equation, so its memory serves the next.
        equation = BellmanEquation.of(self.problem, self._acting(policy), rng, out=self._last)
        self._last = equation
        clock.lap("weights")
        solution = self._solve(equation)
        clock.lap("solve")
        direction = solution_gradient(solution)
        if self._follows:
            direction, solution = self._checked(equation, direction, solution)
        expected_return, unknown_mass = solution.expected_return, solution.unknown_mass
        clock.lap("gradient")
        return GradientEstimate(
            direction=tuple(
                part.to(parameter) for part, parameter in zip(direction, trainable(policy), strict=True)
            ),
            expected_return=expected_return,
            diagnostics={
                "unknown_mass": unknown_mass,
                "products": solution.q_solution.num_steps + solution.mu_solution.num_steps,
                "q_error": solution.q_solution.error_bound,
                "mu_error": solution.mu_solution.error_bound,
            },
            seconds=clock.seconds,
        )

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return q and μ, from which the next solves start, and the tolerance."""
        state = {"tolerance": torch.tensor(self.tolerance, dtype=torch.float64)}
        state["until_checked"] = torch.tensor(self._until_checked)
        if self._start is not None:
            state["q"], state["mu"] = (part.cpu() for part in self._start)
        return state

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        like = self.problem.model.node_rewards
        self.tolerance, self._until_checked = float(state["tolerance"]), int(state["until_checked"])
        self._start = (state["q"].to(like), state["mu"].to(like)) if "q" in state else None

    def solve(self, policy: Policy, *, rng: torch.Generator) -> BellmanSolution:
        """Return the solution under this policy, and start the next solve from it."""
        return self._solve(BellmanEquation.of(self.problem, self._acting(policy), rng))

    def _solve(self, equation: BellmanEquation) -> BellmanSolution:
        solution = equation.solve(self.solver, tolerance=self.tolerance, start=self._start)
        if self.warm_start:
            self._start = (solution.q, solution.mu)  # not the solution: it holds the whole equation
        return solution

    def _checked(
        self, equation: BellmanEquation, direction: tuple[torch.Tensor, ...], solution: BellmanSolution
    ) -> tuple[tuple[torch.Tensor, ...], BellmanSolution]:
        """Look, now and then, how far the direction is from that of a tighter solve; return the better."""
        self._until_checked -= 1
        if self._until_checked >= 0:
            return direction, solution
        self._until_checked = _CHECKED_EVERY
        while self.tolerance > _TIGHTEST:
            tighter = equation.solve(
                self.solver, tolerance=0.1 * self.tolerance, start=(solution.q, solution.mu)
            )
            better = solution_gradient(tighter)
            error = _relative_error(direction, better)
            direction, solution = better, tighter
            if error <= _LARGE_ERROR:
                if error <= _SMALL_ERROR:
                    self.tolerance = min(_LOOSER * self.tolerance, _LOOSEST)
                break
            self.tolerance *= 0.1
        return direction, solution

    def _acting(self, policy: Policy) -> Policy:
        """Return the policy in the precision of the model and on its device."""
        dtype, device = self.problem.model.dtype, self.problem.model.device
        if all((parameter.dtype, parameter.device) == (dtype, device) for parameter in policy.parameters()):
            return policy
        if self._actor is None or self._actor.num_action_samples != policy.num_action_samples:
            self._actor = copy.deepcopy(policy).to(device, dtype)
        self._actor.load_state_dict(policy.state_dict())
        return self._actor


def _relative_error(direction: tuple[torch.Tensor, ...], better: tuple[torch.Tensor, ...]) -> float:
    """Return ‖direction − better‖/‖better‖ over all parameters; 0 where both vanish."""
    apart = sum(float((a - b).double().square().sum()) for a, b in zip(direction, better, strict=True))
    size = sum(float(part.double().square().sum()) for part in better)
    return math.sqrt(apart / size) if size > 0 else 0.0
