"""From logged transitions to a certified controller in one call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import ArrayLike
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError, SupportWarning
from nopg.gradients import NOPG
from nopg.graph import (
    CandidateSearch,
    IntegrationRule,
    LocalLinear,
    NadarayaWatson,
    TransitionModel,
    check_prior_mass,
)
from nopg.kernels import Bandwidths
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.solvers import Solver, solver_by_name
from nopg.training._ascent import ascend
from nopg.training._choice import ModelChoice, choose_model
from nopg.training._controller import Controller
from nopg.training._reports import Callback, Plateau, ProgressBar
from nopg.training._result import TrainingResult
from nopg.training._starts import start_support

__all__ = ["optimize"]


def optimize(
    data: Transitions,
    discount: float,
    *,
    policy: Policy | Literal["deterministic", "gaussian"] = "deterministic",
    initial_states: ArrayLike | None = None,
    model: Literal["auto", "local-linear", "nadaraya-watson"] = "auto",
    bandwidths: Bandwidths | None = None,
    prior_mass: float | None = None,
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
        model: How transitions are predicted: 'nadaraya-watson' is the paper's, 'local-linear' is sharper for
            a smooth plant (docs/local-linear.md), 'auto' takes the one that predicts held-out rows better.
            `TrainingResult.choice` says why.
        bandwidths: Of the kernels; selected from the data by default. The local-linear model takes those of
            the states as its unit of distance.
        prior_mass: β. A query that fewer than β samples speak for counts as mostly unknown. By default 10⁻⁶
            for the paper's model, and for the local-linear one what it means to be at the edge of these data
            (`StateSupport.prior_mass`). The paper's choice is 0.
        unknown_value: v, the value of leaving the data; the worst reward for ever by default.
        integration: How the integral over next states is computed; the paper's N_ϕ = 1 by default.
        solver: 'auto', 'bicgstab', 'lu', 'fixed-point', or a solver.
        updates: Most updates of the policy; 1 500 in the supplement.
        learning_rate: Adam's; 10⁻² in the supplement.
        seed: The one seed of everything random.
        memory_budget: Bytes that the paper's model, its candidate graph and an update on it, may take.
        callbacks: Called after every update; one that returns True ends the training.
        stop: The stop rule, instead of ending on a plateau of Ĵ.
        progress: Whether to show a progress line, if standard error is a terminal.
    """
    check_discount(discount)
    _check_names(model, policy)
    if prior_mass is not None:
        check_prior_mass(prior_mass)
    solve = solver_by_name(solver) if isinstance(solver, str) else solver
    h = bandwidths or select_bandwidths(data)
    starts = (data if initial_states is None else data.starting_at(initial_states)).starts
    support = start_support(data, starts, h.state_kernel)
    if message := support.warning():
        warnings.warn(message, SupportWarning, stacklevel=2)

    bar = ProgressBar() if progress else None
    choice = choose_model(model, data, h, integration)
    if bar:
        bar.note(f"transition model {choice.reason}")
    transitions = _build_model(
        choice, data, h, prior_mass=prior_mass, integration=integration, memory_budget=memory_budget
    )
    problem = ControlProblem.build(
        transitions, data.schema.encode(starts), discount=discount, unknown_value=unknown_value
    )
    actor = _build_policy(policy, data, seed) if isinstance(policy, str) else policy

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
    return TrainingResult(Controller(actor, data.schema), solution, h, history, choice, support)


def _build_model(
    choice: ModelChoice,
    data: Transitions,
    bandwidths: Bandwidths,
    *,
    prior_mass: float | None,
    integration: IntegrationRule | None,
    memory_budget: int,
) -> TransitionModel:
    if choice.name == "nadaraya-watson":
        search = CandidateSearch(memory_budget=memory_budget)
        beta = 1e-6 if prior_mass is None else prior_mass
        return NadarayaWatson(data, bandwidths, prior_mass=beta, integration=integration, search=search)
    if integration is not None:
        raise ArgumentError("the local-linear model predicts a point; leave integration out")
    # The comparison has chosen the shape of the fits already.
    shape = choice.comparison.shape if choice.comparison else None
    return LocalLinear(data, bandwidths.state_kernel, shape=shape, prior_mass=prior_mass)


def _build_policy(kind: str, data: Transitions, seed: int) -> Policy:
    rng = generator(seed, "policy")
    build = MLPPolicy.from_data if kind == "deterministic" else GaussianMLPPolicy.from_data
    return build(data.features, data.actions, rng=rng)


def _check_names(model: str, policy: Policy | str) -> None:
    """Refuse a name that does not exist before any work is done."""
    if model not in {"auto", "local-linear", "nadaraya-watson"}:
        raise ArgumentError(
            f"there is no model {model!r}; choose 'auto', 'local-linear' or 'nadaraya-watson'"
        )
    if isinstance(policy, str) and policy not in {"deterministic", "gaussian"}:
        raise ArgumentError(
            f"there is no policy {policy!r}; choose 'deterministic' or 'gaussian', or pass a Policy"
        )
