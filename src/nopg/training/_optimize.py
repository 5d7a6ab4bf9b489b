"""From logged transitions to a certified controller in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import ArrayLike
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.gradients import NOPG
from nopg.graph import CandidateSearch, IntegrationRule, LocalLinear, NadarayaWatson, TransitionModel
from nopg.kernels import Bandwidths
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.solvers import Solver, solver_by_name
from nopg.training._ascent import ascend
from nopg.training._controller import Controller
from nopg.training._reports import Callback, Plateau, ProgressBar
from nopg.training._result import TrainingResult

__all__ = ["optimize"]


def optimize(
    data: Transitions,
    discount: float,
    *,
    policy: Policy | Literal["deterministic", "gaussian"] = "deterministic",
    initial_states: ArrayLike | None = None,
    model: Literal["nadaraya-watson", "local-linear"] = "nadaraya-watson",
    bandwidths: Bandwidths | None = None,
    prior_mass: float = 1e-6,
    unknown_value: float | None = None,
    integration: IntegrationRule | None = None,
    solver: Solver | str = "auto",
    updates: int = 1_500,
    learning_rate: float = 1e-2,
    seed: int = 0,
    memory_budget: int = 1 << 30,
    callbacks: Sequence[Callback] = (),
    stop: Callback | None = None,
    progress: bool = True,
) -> TrainingResult:
    """Train a controller from logged transitions; only the discount has to be said.

    Args:
        data: The transitions.
        discount: γ in [0, 1): how much the future counts.
        policy: A policy to improve in place, or which kind to build: the supplement's network of 50 units,
            deterministic or Gaussian.
        initial_states: Raw states (n₀, d_s) the controller will start in, equally likely; by default those
            declared in the data, else the first of every episode, else all states.
        model: How transitions are predicted: 'nadaraya-watson' is the paper's; 'local-linear' is sharper
            where data are scattered, and young (docs/local-linear.md).
        bandwidths: Of the kernels; selected from the data by default. The local-linear model takes those of
            the states as its unit of distance.
        prior_mass: β. A query so far from all data that fewer than β samples speak for it counts as
            unknown. The paper's choice is 0.
        unknown_value: v, the value of leaving the data; the worst reward for ever by default.
        integration: How the integral over next states is computed; the paper's N_ϕ = 1 by default.
        solver: 'auto', 'bicgstab', 'lu', 'fixed-point', or a solver.
        updates: Most updates of the policy; 1 500 in the supplement.
        learning_rate: Adam's; 10⁻² in the supplement.
        seed: The one seed of everything random.
        memory_budget: Bytes the candidate graph and an update on it may take.
        callbacks: Called after every update; one that returns True ends the training.
        stop: The stop rule, instead of ending on a plateau of Ĵ.
        progress: Whether to show a progress line, if standard error is a terminal.
    """
    check_discount(discount)
    solve = solver_by_name(solver) if isinstance(solver, str) else solver
    h = bandwidths or select_bandwidths(data)

    transitions = _build_model(
        model, data, h, prior_mass=prior_mass, integration=integration, memory_budget=memory_budget
    )
    starts = (data if initial_states is None else data.starting_at(initial_states)).starts
    problem = ControlProblem.build(
        transitions, data.schema.encode(starts), discount=discount, unknown_value=unknown_value
    )
    actor = _build_policy(policy, data, seed) if isinstance(policy, str) else policy

    bar = ProgressBar() if progress else None
    listeners: list[Callback] = [*callbacks, stop or Plateau()]
    if bar:
        listeners.append(bar)
    history = ascend(
        NOPG(problem, solver=solve),
        actor,
        updates=updates,
        learning_rate=learning_rate,
        seed=seed,
        callbacks=listeners,
    )
    if bar and len(history) < updates:
        bar.close()

    # Training may be inexact; the answer is solved to its certificate.
    solution = problem.equation(actor, generator(seed, "actions")).solve(solve)
    return TrainingResult(Controller(actor, data.schema), solution, h, history)


def _build_model(
    kind: str,
    data: Transitions,
    bandwidths: Bandwidths,
    *,
    prior_mass: float,
    integration: IntegrationRule | None,
    memory_budget: int,
) -> TransitionModel:
    if kind == "nadaraya-watson":
        search = CandidateSearch(memory_budget=memory_budget)
        return NadarayaWatson(data, bandwidths, prior_mass=prior_mass, integration=integration, search=search)
    if kind != "local-linear":
        raise ArgumentError(f"there is no model {kind!r}; choose 'nadaraya-watson' or 'local-linear'")
    if integration is not None:
        raise ArgumentError("the local-linear model predicts a point; leave integration out")
    return LocalLinear(data, bandwidths.state_kernel, prior_mass=prior_mass)


def _build_policy(kind: str, data: Transitions, seed: int) -> Policy:
    rng = generator(seed, "policy")
    if kind == "deterministic":
        return MLPPolicy.from_data(data.features, data.actions, rng=rng)
    if kind == "gaussian":
        return GaussianMLPPolicy.from_data(data.features, data.actions, rng=rng)
    raise ArgumentError(
        f"there is no policy {kind!r}; choose 'deterministic' or 'gaussian', or pass a Policy"
    )
