"""From logged transitions to a controller and what it will do, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Literal

import torch

from nopg._checks import check_device, check_discount
from nopg._ranks import current_ranks
from nopg._seeding import generator
from nopg._typing import ArrayLike
from nopg.bellman import ControlProblem, MultistepProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError, SupportWarning
from nopg.kernels import Bandwidths
from nopg.linalg import Solver
from nopg.linalg._choice import solver_by_name
from nopg.models import IntegrationRule, LocalModel, RewardFunction
from nopg.models._footprint import memory_budget as memory_budget_or_default
from nopg.models._prior_mass import check_prior_mass
from nopg.models._sharing import gather_initial_states, whole_data
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.training._ascent import check_ascent
from nopg.training._checkpoint import ResumeState, open_checkpoints
from nopg.training._constraints import Constraint, check_constraints, cost_columns
from nopg.training._controller import Controller
from nopg.training._fingerprint import run_fingerprint
from nopg.training._paper_problem import PaperSettings, paper_footprint, paper_problem
from nopg.training._reports import Callback, ProgressBar
from nopg.training._result import Answer, LiveSource, TrainingResult
from nopg.training._starts import start_support
from nopg.training._train import judge, train

__all__ = ["build_policy", "optimize"]

# The supplement's, for the paper's model; the local model starts near an optimum.
_UPDATES = {"paper": 1_500, "local": 60}


def optimize(
    data: Transitions,
    discount: float,
    *,
    policy: Policy | Literal["deterministic", "gaussian"] = "deterministic",
    initial_states: ArrayLike | None = None,
    model: Literal["local", "paper"] = "local",
    reward: RewardFunction | None = None,
    unknown_value: float | None = None,
    start: Literal["auto", "given"] = "auto",
    constraints: Sequence[Constraint] = (),
    updates: int | None = None,
    learning_rate: float = 1e-2,
    seed: int = 0,
    bandwidths: Bandwidths | None = None,
    prior_mass: float | None = None,
    integration: IntegrationRule | None = None,
    solver: Solver | str = "auto",
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
    """Train a controller from logged transitions; only the discount has to be given.

    With the local model the result is judged before it is returned: `TrainingResult.evaluation` holds the
    return with its interval and verdict, and a `SupportWarning` says where the verdict is not `ok` or the
    controller is not better than what was logged.

    Args:
        data: The transitions.
        discount: γ in [0, 1): how much the future counts.
        policy: A policy to improve in place, or which kind to build: the supplement's network of 50 units,
            deterministic or Gaussian.
        initial_states: Raw states (n₀, d_s) the controller will start in, equally likely; by default those
            declared in the data, else the first of every episode, else all states.
        model: 'local' fits local polynomials to the plant and solves a multi-step Bellman equation on them;
            'paper' is the Nadaraya-Watson model of the paper and its equation.
        reward: The reward as a function of states (m, d_s), actions (m, d_a) and next states (m, d_s) in
            torch, where it is known; by default it is fitted. For the local model.
        unknown_value: v, the value of leaving the data; the worst that was logged, for ever, by default.
        start: Where the ascent begins. 'given' takes the policy as it is, a new one at random. 'auto' takes,
            for a new policy on the local model, the best of several: what was logged, least squares + LQR,
            best actions of the model, and random weights.
        constraints: Limits on costs, or on the time spent in regions of the states, that the controller has
            to keep by what the model predicts. For the local model; it takes several ascents more.
            `TrainingResult.constraints` says what came of each limit.
        updates: Most updates of the policy; 60 by default, 1 500 with the paper's model as in the supplement.
        learning_rate: Adam's; 10⁻² in the supplement.
        seed: Random seed.
        bandwidths: Of the paper's kernels; selected from the data by default.
        prior_mass: β of the paper's model. A query that fewer than β samples support is mostly unknown; 10⁻⁶
            by default, 0 in the paper.
        integration: How the paper's integral over next states is computed; N_ϕ = 1 by default.
        solver: Of the paper's equation: 'auto', 'gmres', 'bicgstab', 'lu', 'fixed-point', or a solver.
        precision: Of the training with the paper's model: 'auto' takes float32 above 20 000 rows. The answer
            is certified in float64 in any case.
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
    gamma, ranks = check_discount(discount), current_ranks()
    where = check_device(device, several_ranks=ranks.several)
    planned = _UPDATES.get(model, 1) if updates is None else updates
    settings = PaperSettings(bandwidths, prior_mass, integration, precision, where, memory_budget)
    _check_settings(model, policy, precision, start, prior_mass, ascent=(planned, learning_rate))
    if isinstance(policy, Policy) and policy.num_actions != data.actions.shape[1]:
        raise ArgumentError(
            f"the policy has {policy.num_actions} actions, the data have {data.actions.shape[1]}"
        )
    _check_local(model, settings, reward, solver, several_ranks=ranks.several)
    check_constraints(constraints, data, model, checkpoint, resume)
    solve = solver_by_name(solver) if isinstance(solver, str) else solver
    solve.forget()
    if model == "paper":
        paper_footprint(data, settings, ranks).affordable(memory_budget_or_default(memory_budget))

    whole = whole_data(data, ranks)
    given = data if initial_states is None else data.starting_at(initial_states)
    starts = gather_initial_states(given, ranks)
    saves = open_checkpoints(
        checkpoint,
        resume,
        lambda: run_fingerprint(
            whole,
            starts,
            bandwidths,
            discount=gamma,
            policy=policy,
            model=model,
            reward=None if reward is None else "a function",
            prior_mass=prior_mass,
            unknown_value=unknown_value,
            integration=integration,
            solver=solver,
            start=start,
            updates=planned,
            learning_rate=learning_rate,
            seed=seed,
            precision=precision,
            ranks=ranks.count,
        ),
        every=checkpoint_every,
        minutes=checkpoint_minutes,
        ranks=ranks,
    )
    bar = ProgressBar() if progress and ranks.number == 0 else None
    actor = build_policy(policy, whole, seed, linear=model == "local") if isinstance(policy, str) else policy
    problem: ControlProblem
    if model == "paper":
        problem, note = paper_problem(
            data,
            starts,
            gamma,
            settings,
            unknown_value=unknown_value,
            ranks=ranks,
            most_candidates=saves.resume_state.most_candidates if saves else None,
        )
        if saves:
            saves.resume_state = ResumeState(problem.model.search.most_candidates)
    else:
        plant = LocalModel(given, reward=reward, costs=cost_columns(constraints, given))
        problem = MultistepProblem.build(plant, starts, gamma, unknown_value=unknown_value)
        note = "held-out R² " + ", ".join(f"{fit.name} {fit.r_squared:.3f}" for fit in plant.column_fits)
    support = start_support(whole, starts, problem.metric)
    if (message := support.warning()) and ranks.number == 0:
        warnings.warn(message, SupportWarning, stacklevel=2)
    if bar:
        bar.note(note)
    trained = train(
        problem,
        actor,
        portfolio=start == "auto" and isinstance(policy, str),
        constraints=constraints,
        updates=planned,
        learning_rate=learning_rate,
        seed=seed,
        solver=solve,
        callbacks=[*callbacks, *([bar] if bar else [])],
        stop=stop,
        checkpoints=saves,
        note=bar.note if bar else None,
    )
    if bar and len(trained.history) < planned:
        bar.close()
    controller = Controller(actor, data.schema)
    evaluation, doubts = judge(trained.problem, controller)
    for doubt in doubts:
        warnings.warn(doubt, SupportWarning, stacklevel=2)
    solution = trained.problem.solve(actor, seed=seed, solver=solve)
    return TrainingResult(
        policy=controller,
        answer=Answer.of(solution, evaluation),
        history=trained.history,
        start=trained.start,
        start_support=support,
        seed=seed,
        source=LiveSource(solution, evaluation),
        constraints=trained.constraints,
    )


def build_policy(kind: str, data: Transitions, seed: int, *, linear: bool = False) -> Policy:
    """Return the new policy that `optimize` trains: the supplement's network, of this kind.

    Args:
        kind: `deterministic` or `gaussian`.
        data: Its inputs are standardised by these.
        seed: Of its weights.
        linear: Whether a deterministic one begins with linear laws near, as the local model's starts ask for.
    """
    rng = generator(seed, "policy")
    if kind == "deterministic":
        return MLPPolicy.from_data(data.features, data.actions, rng=rng, linear=linear)
    return GaussianMLPPolicy.from_data(data.features, data.actions, rng=rng, num_action_samples=None)


def _check_local(
    model: str,
    settings: PaperSettings,
    reward: RewardFunction | None,
    solver: Solver | str,
    *,
    several_ranks: bool,
) -> None:
    """Refuse settings of one model that are given for the other."""
    if model == "paper":
        if reward is not None:
            raise ArgumentError("the paper's equation takes the logged rewards; leave reward out")
        return
    given = {
        "bandwidths": settings.bandwidths,
        "prior_mass": settings.prior_mass,
        "integration": settings.integration,
        "solver": None if solver == "auto" else solver,
        "precision": None if settings.precision == "auto" else settings.precision,
        "memory_budget": settings.memory_budget,
    }
    if names := [name for name, value in given.items() if value is not None]:
        raise ArgumentError(f"{' and '.join(names)} belong to the paper's model; give model='paper' too")
    if several_ranks:
        raise ArgumentError("the local model runs in one process; under torchrun use model='paper'")
    if settings.device is not None and settings.device.type != "cpu":
        raise ArgumentError(
            f"the local model computes on the CPU, not on {str(settings.device)!r}; leave device out, or use "
            "model='paper'"
        )


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
    if model not in _UPDATES:
        raise ArgumentError(f"there is no model {model!r}; choose 'local' or 'paper'")
    check_ascent(*ascent)
    if prior_mass is not None:
        check_prior_mass(prior_mass)
    if start not in {"auto", "given"}:
        raise ArgumentError(f"there is no start {start!r}; choose 'auto' or 'given'")
    if precision not in {"auto", "float32", "float64"}:
        raise ArgumentError(f"there is no precision {precision!r}; choose 'auto', 'float32' or 'float64'")
    if isinstance(policy, str) and policy not in {"deterministic", "gaussian"}:
        raise ArgumentError(
            f"there is no policy {policy!r}; choose 'deterministic' or 'gaussian', or pass a Policy"
        )
    if isinstance(policy, Policy) and (away := {str(part.device) for part in policy.parameters()} - {"cpu"}):
        raise ArgumentError(
            f"the policy is on {', '.join(sorted(away))}; give it on the CPU, device=… trains a copy of it"
        )
