"""From logged transitions to a certified controller in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Literal

import torch

from nopg._checks import check_device, check_discount
from nopg._memory import gigabytes
from nopg._ranks import Ranks, current_ranks
from nopg._seeding import generator
from nopg._typing import ArrayLike
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem, action_candidates
from nopg.data import Transitions
from nopg.errors import ArgumentError, SupportWarning
from nopg.gradients import NOPG
from nopg.graph import (
    DEFAULT_PRIOR_MASS,
    CandidateSearch,
    Footprint,
    IntegrationRule,
    LocalLinear,
    NadarayaWatson,
    TransitionModel,
    check_prior_mass,
    holds_a_part,
    share_rows,
    whole_data,
    whole_starts,
)
from nopg.graph import memory_budget as memory_budget_or_default
from nopg.kernels import Bandwidths
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.solvers import Solver, solver_by_name
from nopg.training._ascent import ascend, check_ascent
from nopg.training._checkpoint import Checkpoints, Settled, open_checkpoints
from nopg.training._choice import ModelChoice, check_choice, choose_model
from nopg.training._constraints import Constraint, keep_limits
from nopg.training._controller import Controller
from nopg.training._greedy_start import GreedyStart, hold_actions, keep_the_better, start_greedily
from nopg.training._purpose import purpose_of
from nopg.training._reports import Callback, Plateau, ProgressBar
from nopg.training._result import Answer, Trained, TrainingResult
from nopg.training._starts import start_support

__all__ = ["build_policy", "optimize"]

# Below this many rows float64 costs little.
_FLOAT32_ABOVE = 20_000
# Above this many rows a greedy start, which asks the model for every candidate action, is a choice.
_GREEDY_UP_TO = 100_000


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
    start: Literal["auto", "given", "greedy"] = "auto",
    constraints: Sequence[Constraint] = (),
    updates: int = 1_500,
    learning_rate: float = 1e-2,
    seed: int = 0,
    precision: Literal["auto", "float32", "float64"] = "auto",
    device: torch.device | str | None = None,
    memory_budget: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 20,
    checkpoint_minutes: float | None = None,
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
        solver: 'auto', 'gmres', 'bicgstab', 'lu', 'fixed-point', or a solver.
        start: Where the ascent begins: 'given' takes the policy as it is, a fresh one at random; 'greedy'
            first fits it to the best action at every state of the data, found by policy iteration on the
            model. It takes as long as some fifty updates, and may find an optimum that no gradient climbs to.
            With the local-linear model the policy is tried along predicted paths: where it earns less there
            than the equation says, actions last longer in the training, which takes some hundred and fifty
            updates more, and an ascent that ends worse than it began is undone. 'auto' is greedy for a policy
            that is built here, and takes a given one as it is; above 100 000 rows it is 'given'.
        constraints: Limits on costs, or on the time spent in regions of the states, that the controller has
            to keep by what the data predict. It takes several ascents more; `TrainingResult.constraints` says
            what came of each limit.
        updates: Most updates of the policy; 1 500 in the supplement.
        learning_rate: Adam's; 10⁻² in the supplement.
        seed: The one seed of everything random.
        precision: Of the training with the paper's model: 'float32' is faster and takes less memory, 'auto'
            takes it above 20 000 rows. The answer is solved and certified in float64 in any case.
        device: Where the updates of the paper's model compute, such as 'cuda'; the CPU by default.
        memory_budget: Bytes that the process may take with the paper's model; 60 % of what is free if not
            given.
        checkpoint: A folder for checkpoints. A training that finds one of its own there goes on from it, so
            a script that is simply started again ends as if it had never been stopped, to the last bit. The
            first Ctrl-C then ends the training after an update, with a checkpoint, by `TrainingInterrupted`;
            the second one at once.
        resume: The same, where there must be a checkpoint already. Data and settings must be those it was
            begun with; where it computes, and how much memory it may take, may change.
        checkpoint_every: Updates between two checkpoints.
        checkpoint_minutes: Minutes after which to write one even so. Checkpoints never change the numbers.
        callbacks: Called after every update, such as a `CSVLogger`; one that returns True ends the training.
        stop: The stop rule, instead of ending on a plateau of Ĵ.
        progress: Whether to show a progress line, if standard error is a terminal.
    """
    gamma = check_discount(discount)
    _check_settings(model, policy, precision, start, prior_mass, ascent=(updates, learning_rate))
    _check_rounds(constraints, data, checkpoint, resume)
    solve = solver_by_name(solver) if isinstance(solver, str) else solver
    solve.forget()
    ranks = current_ranks()
    where = check_device(device, several_ranks=ranks.several)
    check_choice(model, ranks, where)
    rows = int(ranks.total(len(data))) if holds_a_part(data, ranks) else len(data)
    budget = memory_budget_or_default(memory_budget)
    footprint = _footprint(data, -(-rows // ranks.count), integration)
    if model == "nadaraya-watson":
        footprint.affordable(budget)  # says no before any work is done

    whole = whole_data(data, ranks)
    given = data if initial_states is None else data.starting_at(initial_states)
    starts = whole_starts(given, ranks)
    saves = open_checkpoints(
        checkpoint,
        resume,
        lambda: purpose_of(
            whole,
            starts,
            bandwidths,
            discount=gamma,
            policy=policy,
            model=model,
            prior_mass=prior_mass,
            unknown_value=unknown_value,
            integration=integration,
            solver=solver,
            start=start,
            updates=updates,
            learning_rate=learning_rate,
            seed=seed,
            precision=precision,
            ranks=ranks.count,
        ),
        every=checkpoint_every,
        minutes=checkpoint_minutes,
        ranks=ranks,
    )
    h = bandwidths or select_bandwidths(whole)
    support = start_support(whole, starts, h.state_kernel)
    if (message := support.warning()) and ranks.number == 0:
        warnings.warn(message, SupportWarning, stacklevel=2)

    bar = ProgressBar() if progress and ranks.number == 0 else None
    choice = choose_model(model, whole, h, integration, ranks=ranks, device=where)
    actor = build_policy(policy, whole, seed) if isinstance(policy, str) else policy
    shared = share_rows(data, h.state_kernel, ranks)
    if bar:
        bar.note(f"transition model {choice.reason}")
    if choice.name == "nadaraya-watson":
        search = CandidateSearch(most_candidates=_affordable(footprint, budget, saves, ranks))
        beta = DEFAULT_PRIOR_MASS if prior_mass is None else prior_mass
        transitions: TransitionModel = NadarayaWatson(
            shared.data,
            h,
            prior_mass=beta,
            integration=integration,
            search=search,
            dtype=_dtype(precision, rows),
            device=where,
            ranks=ranks,
            cells=shared.cells,
        )
        if bar:
            K = transitions.node_queries.pattern.row_length
            bar.note(
                f"{footprint.queries} rows of up to {K} candidates, about {gigabytes(footprint.bytes(K))} of "
                f"the {gigabytes(budget)} that may be taken"
            )
    else:
        transitions = _local_linear(choice, shared.data, h, prior_mass=prior_mass, integration=integration)
    problem = ControlProblem.build(
        transitions,
        data.schema.encode(starts[ranks.number :: ranks.count]),
        discount=gamma,
        unknown_value=unknown_value,
    )
    candidates = action_candidates(whole.actions) if _greedy(start, policy, rows) else None
    begun, held = _begin(actor, problem, candidates, solver=solve, seed=seed, saves=saves, bar=bar)
    history = ascend(
        NOPG(held, solver=solve),
        actor,
        updates=updates,
        learning_rate=learning_rate,
        seed=seed,
        callbacks=[*callbacks, *([bar] if bar else [])],
        stop=stop or Plateau(),
        checkpoints=saves,
    )
    if bar and len(history) < updates:
        bar.close()

    if begun and keep_the_better(actor, problem, begun) and bar:
        bar.note("the start earns more along predicted paths than the last policy: the start is kept")
    kept, history = keep_limits(
        constraints,
        given,
        actor,
        problem=held,
        rows=shared.rows,
        history=history,
        bandwidths=h,
        seed=seed,
        improve=lambda priced, share: ascend(
            NOPG(priced, solver=solve),
            actor,
            updates=updates,
            learning_rate=share * learning_rate,
            seed=seed,
            callbacks=[*callbacks, *([bar] if bar else [])],
            stop=stop or Plateau(),
        ),
    )
    # Training may be inexact; the answer is solved to its certificate, in float64 on the CPU, and depends on
    # the policy alone, not on the way there.
    solve.forget()
    problem.remember({})
    problem = problem.to(torch.float64, "cpu")
    solution = problem.equation(actor, generator(seed, "actions")).solve(solve)
    return TrainingResult(
        policy=Controller(actor, data.schema),
        answer=Answer.of(solution),
        bandwidths=h,
        history=history,
        choice=choice,
        start_support=support,
        rows=shared.rows,
        seed=seed,
        source=Trained(solution, h),
        constraints=kept,
    )


def _affordable(footprint: Footprint, budget: int, saves: Checkpoints | None, ranks: Ranks) -> int:
    """Return the K that all ranks can afford; a training that goes on keeps the one it began with."""
    if saves and saves.settled.most_candidates is not None:
        return saves.settled.most_candidates
    return -int(ranks.max(torch.tensor(-footprint.affordable(budget))))


def _begin(
    policy: Policy,
    problem: ControlProblem,
    candidates: torch.Tensor | None,
    *,
    solver: Solver,
    seed: int,
    saves: Checkpoints | None,
    bar: ProgressBar | None,
) -> tuple[GreedyStart | None, ControlProblem]:
    """Return the start and the problem to ascend in; with candidates (c, d_a) the policy starts greedily."""
    begun, held, said = None, problem, None
    if saves and saves.last:
        begun, said = saves.settled.start, f"going on after update {len(saves.last.history)}"
        held = hold_actions(problem, begun.hold) if begun else problem
    elif candidates is not None:
        if bar:
            bar.note("looking for the best actions of the model: as long as fifty updates, or more")
        begun, held = start_greedily(policy, problem, candidates, solver=solver, seed=seed)
        said = f"best actions {begun}"
    if bar and said:
        bar.note(said)
    if saves:
        search = problem.model.search if isinstance(problem.model, NadarayaWatson) else None
        saves.settled = Settled(search.most_candidates if search else None, begun)
    return begun, held


def _greedy(start: str, policy: Policy | str, rows: int) -> bool:
    """Return whether the ascent begins at the best actions of the model."""
    return start == "greedy" or (start == "auto" and isinstance(policy, str) and rows <= _GREEDY_UP_TO)


def _dtype(precision: str, rows: int) -> torch.dtype:
    """Return the precision of the training."""
    many = rows > _FLOAT32_ABOVE
    return torch.float32 if precision == "float32" or (precision == "auto" and many) else torch.float64


def _footprint(data: Transitions, rows: int, integration: IntegrationRule | None) -> Footprint:
    """Return what the paper's model would take for so many rows of data like these."""
    return Footprint.of(data, rows * (1 if integration is None else integration.num_samples))


def _local_linear(
    choice: ModelChoice,
    data: Transitions,
    bandwidths: Bandwidths,
    *,
    prior_mass: float | None,
    integration: IntegrationRule | None,
) -> LocalLinear:
    if integration is not None:
        raise ArgumentError("the local-linear model predicts a point; leave integration out")
    # The comparison has chosen the shape of the fits already.
    shape = choice.comparison.shape if choice.comparison else None
    return LocalLinear(data, bandwidths.state_kernel, shape=shape, prior_mass=prior_mass)


def build_policy(kind: str, data: Transitions, seed: int) -> Policy:
    """Return the fresh policy that `optimize` trains: the supplement's network, of this kind."""
    rng = generator(seed, "policy")
    if kind == "deterministic":
        return MLPPolicy.from_data(data.features, data.actions, rng=rng)
    return GaussianMLPPolicy.from_data(data.features, data.actions, rng=rng, num_action_samples=None)


def _check_rounds(
    constraints: Sequence[Constraint], data: Transitions, checkpoint: object, resume: object
) -> None:
    """Refuse what a training of several rounds cannot do."""
    if not constraints:
        return
    if checkpoint is not None or resume is not None:
        raise ArgumentError(
            "a training with constraints keeps no checkpoints; leave checkpoint and resume out"
        )
    if current_ranks().several:
        raise ArgumentError("a training with constraints runs in one process, not under torchrun")
    for constraint in constraints:
        constraint.costs(data)


def _check_settings(
    model: str,
    policy: Policy | str,
    precision: str,
    start: str,
    prior_mass: float | None,
    *,
    ascent: tuple[int, float],
) -> None:
    """Refuse what does not exist or cannot be before any work is done."""
    check_ascent(*ascent)
    if prior_mass is not None:
        check_prior_mass(prior_mass)
    if start not in {"auto", "given", "greedy"}:
        raise ArgumentError(f"there is no start {start!r}; choose 'auto', 'given' or 'greedy'")
    if precision not in {"auto", "float32", "float64"}:
        raise ArgumentError(f"there is no precision {precision!r}; choose 'auto', 'float32' or 'float64'")
    if model not in {"auto", "local-linear", "nadaraya-watson"}:
        raise ArgumentError(
            f"there is no model {model!r}; choose 'auto', 'local-linear' or 'nadaraya-watson'"
        )
    if isinstance(policy, str) and policy not in {"deterministic", "gaussian"}:
        raise ArgumentError(
            f"there is no policy {policy!r}; choose 'deterministic' or 'gaussian', or pass a Policy"
        )
    if isinstance(policy, Policy) and (away := {str(part.device) for part in policy.parameters()} - {"cpu"}):
        raise ArgumentError(
            f"the policy is on {', '.join(sorted(away))}; give it on the CPU, device=… trains a copy of it"
        )
