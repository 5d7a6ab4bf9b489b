"""How the answer of the paper's equation hangs on every transition, and what that says about its error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.bellman import BellmanSolution, BellmanSystem
from nopg.data import Transitions, held_out_groups
from nopg.errors import ArgumentError
from nopg.graph import Backup, NadarayaWatson, Queries, SparseRows
from nopg.solvers import BiCGSTAB, Resolvent, Solver

__all__ = ["EquationAnswer", "bootstrap_returns", "equation_answer", "influence"]

# Relative, of a draw's residual, most of whose effect is then taken out.
_BOOTSTRAP_TOLERANCE = 1e-2
# Less than this share of the weight, and a sample counts as the only one near itself.
_LEAST_SEEN = 1e-9


@dataclass(frozen=True, eq=False)
class EquationAnswer:
    """What the paper's equation says of one policy, with its statistical error.

    Attributes:
        expected_return: Ĵ.
        doubly_robust: Ĵ + μᵀ(q − K_loo q): corrected by what the equation misses at samples it has not seen.
        standard_error: Of Ĵ, by the infinitesimal jackknife over groups of rows.
        doubly_robust_error: Of the corrected value, from the scatter of its corrections over groups.
        unknown_mass: U.
        effective_samples: (Σμ)²/Σμ², how many samples' worth of visits the answer rests on.
        influence: ∂Ĵ/∂log wᵢ, shape (n,).
        groups: The group of each row, shape (n,).
    """

    expected_return: float
    doubly_robust: float
    standard_error: float
    doubly_robust_error: float
    unknown_mass: float
    effective_samples: float
    influence: torch.Tensor
    groups: torch.Tensor

    def influential_groups(self, count: int = 20) -> list[tuple[int, float]]:
        """Return the groups on which Ĵ rests most and their influence, the largest first."""
        total = _by_group(self.influence, self.groups)
        order = total.abs().argsort(descending=True)[:count]
        return [(int(group), float(total[group])) for group in order]


def equation_answer(solution: BellmanSolution) -> EquationAnswer:
    """Return the answer of a solution of the paper's model; four products beyond the solve."""
    model = _model(solution)
    data, mu, q = model.data, solution.mu, solution.q
    _, groups = torch.unique(held_out_groups(data), return_inverse=True)
    by_sample = influence(solution)
    missed = mu * (q - _left_out(model, data, q))
    J = solution.expected_return
    return EquationAnswer(
        expected_return=J,
        doubly_robust=J + float(missed.sum()),
        standard_error=_clustered(by_sample, groups),
        doubly_robust_error=_clustered(missed, groups),
        unknown_mass=solution.unknown_mass,
        effective_samples=float(mu.sum().square() / mu.square().sum()),
        influence=by_sample,
        groups=groups,
    )


def influence(solution: BellmanSolution) -> torch.Tensor:
    """Return ∂Ĵ/∂log wᵢ of every sample, shape (n,), wᵢ being how often it counts (1 as it stands).

    With Vₛ the value of a query and yₛ its visits, it is Σₛ yₛ εₛᵢ (qᵢ − Vₛ). Queries are the initial states,
    visited 1/n₀ times each, and the states that samples lead to, visited γμ times.
    """
    system, q = solution.equation, solution.q
    model = _model(solution)
    v, total = system.problem.unknown_value, torch.zeros_like(q)
    visits = (system.discount * solution.mu * system.operator.continues).repeat_interleave(model.group_size)
    starts = torch.full_like(system.initial_backup.unknown, 1 / system.problem.num_initial)
    for queries, tape, backup, y in (
        (model.node_queries, system.at_nodes, system.node_backup, visits / model.group_size),
        (system.problem.initial, system.at_starts, system.initial_backup, starts),
    ):
        for one in _samples(queries, tape.actions, backup):
            V = one.values(q, v)
            carried = one.weights.apply_transposed(torch.stack([y, y * V], dim=1)) / len(tape.actions)
            total += q * carried[:, 0] - carried[:, 1]
    return total


def bootstrap_returns(
    solution: BellmanSolution, draws: int, *, seed: int = 0, solver: Solver | None = None
) -> torch.Tensor:
    """Return Ĵ under random weights of the groups of rows, the Bayesian bootstrap, shape (draws,).

    Each draw gives every episode a weight from the exponential distribution and solves for q again, from the
    q that is known and only roughly; the visits that are known take out most of what that misses.

    Args:
        solution: Of the paper's model.
        draws: How many.
        seed: Of the weights.
        solver: Of the linear systems; `BiCGSTAB` if not given.
    """
    model, system = _model(solution), solution.equation
    _, groups = torch.unique(held_out_groups(model.data), return_inverse=True)
    rng, count = generator(seed, "bootstrap"), int(groups.max()) + 1
    nodes = list(_samples(model.node_queries, system.at_nodes.actions, system.node_backup))
    starts = list(_samples(system.problem.initial, system.at_starts.actions, system.initial_backup))
    found = torch.empty(draws, dtype=torch.float64)
    for draw in range(draws):
        w = -torch.rand(count, dtype=torch.float64, generator=rng).clamp(min=1e-300).log()
        w = w[groups].to(solution.q)
        again = BellmanSystem(
            system.problem,
            _reweighted(model.node_queries, nodes, w),
            _reweighted(system.problem.initial, starts, w),
        )
        Lambda = Resolvent(again.operator, again.discount)
        how = solver or BiCGSTAB()
        q = how.solve(Lambda, again.targets, tolerance=_BOOTSTRAP_TOLERANCE, guess=solution.q).value
        # What is left of the residual, weighted by visits, is the error of Ĵ but for a product of errors.
        left = again.targets - Lambda.apply(q)
        known = system.problem.space.dot(again.initial_responsibilities, q) + float(solution.mu @ left)
        found[draw] = known + again.initial_unknown * system.problem.unknown_value
    return found


def _model(solution: BellmanSolution) -> NadarayaWatson:
    model = solution.equation.problem.model
    if not isinstance(model, NadarayaWatson):
        raise ArgumentError(
            "influence is that of samples in the paper's equation; this solution is of another model. "
            "`evaluate_offline` solves the paper's too"
        )
    if model.space.ranks.several:
        raise ArgumentError("influence needs all data on one rank; load the result on one")
    return model


def _samples(queries: Queries, actions: torch.Tensor, backup: Backup) -> Iterator[Backup]:
    """Yield the answer for each sample of the actions (L, m, d_a)."""
    if len(actions) == 1:
        yield backup
        return
    for action in actions:
        yield queries.backup(action[None])


def _reweighted(queries: Queries, samples: list[Backup], w: torch.Tensor) -> Backup:
    """Return the mean answer if samples counted w (n,) times: ε ∝ εw, and the prior mass as before."""
    indices = queries.pattern.indices
    factors = w.index_select(0, indices.view(-1)).view(indices.shape)
    weights, unknown = None, torch.zeros_like(samples[0].unknown)
    for one in samples:
        scaled = one.weights.values * factors
        mass = scaled.sum(dim=1).add_(one.unknown).mul_(len(samples))
        scaled.div_(mass[:, None])
        weights = scaled if weights is None else weights.add_(scaled)
        unknown += one.unknown / mass
    assert weights is not None
    return Backup(SparseRows(queries.pattern, weights), unknown, torch.zeros_like(unknown))


def _left_out(model: NadarayaWatson, data: Transitions, q: torch.Tensor) -> torch.Tensor:
    """Return (K_loo q)ᵢ, Q̂(sᵢ, aᵢ) from all samples but those equal to i in state and action, shape (n,).

    Where nothing else is near it is qᵢ itself: nothing can be said, so nothing is corrected.
    """
    queries = model.bind(data.features)
    answer = queries.backup(data.actions[None].to(model.device, model.dtype))
    near = queries.pattern.indices.long()
    values = answer.weights.values
    own = torch.arange(len(data))[:, None] == near
    weights = values.masked_fill(own, 0.0)
    mass = weights.sum(dim=1)
    seen = mass > _LEAST_SEEN * values.sum(dim=1).clamp(min=1e-300)
    mean = (weights * q[near]).sum(dim=1) / mass.clamp(min=1e-300)
    return torch.where(seen, mean, q)


def _clustered(by_sample: torch.Tensor, groups: torch.Tensor) -> float:
    """Return the root of the sum of squares of group sums, for a finite number of groups."""
    total = _by_group(by_sample, groups)
    count = len(total)
    return float((total.square().sum() * (count / max(count - 1, 1))).sqrt())


def _by_group(by_sample: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(int(groups.max()) + 1, dtype=by_sample.dtype)
    return total.index_add_(0, groups, by_sample)
