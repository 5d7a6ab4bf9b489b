"""From logged transitions to a controller and what it will do, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal

import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike
from nopg.bellman import ControlProblem, MultistepProblem
from nopg.data import Transitions
from nopg.data._bounds import check_bounds, check_log, check_trainable
from nopg.errors import ArgumentError, SupportWarning
from nopg.evaluation import OfflineEvaluator
from nopg.inspect._describe import many_columns
from nopg.models._local_model import LocalModelConfig, ModelConfig
from nopg.models._log_summary import LogSummary
from nopg.policies import Formulas, Policy
from nopg.training._ascent import ascend
from nopg.training._checkpoint import Checkpoint, run_fingerprint
from nopg.training._config import TrainingConfig
from nopg.training._constraints import Constraint, cost_columns
from nopg.training._controller import Controller
from nopg.training._improve import improve, solution_under
from nopg.training._judge import doubts_of, judge
from nopg.training._new_policy import (
    NETWORKS,
    NewPolicy,
    build_policy,
    check_policy,
    with_derived,
)
from nopg.training._proposals import INITIAL_POLICY, propose, regulators
from nopg.training._reports import ProgressLine, on_plateau
from nopg.training._result import TrainingResult
from nopg.training._starts import unknown_starts


@contextmanager
def _recording_gradients() -> Iterator[None]:
    """Let autograd record, whatever the caller has switched off."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        yield


@_recording_gradients()
def optimize(
    data: Transitions | LogSummary,
    discount: float,
    *,
    policy: Policy | NewPolicy = "auto",
    model: ModelConfig | Literal["local", "paper"] = "local",
    initial_states: ArrayLike | None = None,
    constraints: Sequence[Constraint] = (),
    rates: Mapping[str, float] | None = None,
    config: TrainingConfig | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a controller from logged transitions; only the discount has to be given.

    With the local model the result is evaluated before it is returned; a `SupportWarning` is given where the
    verdict is not `ok` or the controller is not better than what was logged.

    Args:
        data: The transitions, or the summary of a log that does not fit into memory.
        discount: γ in [0, 1): how much the future counts.
        policy: A policy to improve in place, which is one of the proposals that the ascent may begin with;
            or a new one. 'auto' is the supplement's network of 50 units, or the linear feedback of least
            squares and LQR where the network is not better with 90 % probability and there are no
            constraints or levels; 'deterministic' and 'gaussian' are networks. Or a controller by its
            structure, 'p', 'pi', 'pid' or 'linear', or
            `ControlStructure('pi', follows={'level': 'setpoint'})`; or your own `Formulas`. Earlier values
            that a structure needs become columns of the data.
        model: 'local' fits local polynomials to the plant and solves a multi-step Bellman equation on them;
            'paper' is the Nadaraya-Watson model of the paper and its equation. `LocalModel.Config(…)` and
            `PaperModel.Config(…)` change their settings.
        initial_states: Raw states (n₀, d_s) the controller will start in, equally likely and exact. By
            default those declared in the data, else rows of the log (`Transitions.start_rows`), which are
            a sample: the interval is that of new starts like them.
        constraints: Limits on costs, or on the time spent in regions of the states, that the controller has
            to keep by what the model predicts. For the local model; it takes a second, longer ascent.
            `TrainingResult.constraints` has the outcome of each limit.
        rates: Largest change of an action from row to row, by name, in the unit of the action. The action
            before becomes a column of the data, and the controller keeps the limit wherever it runs.
        config: Settings of the training: updates, learning rate, seed, start, callbacks, progress.
        checkpoint: A file that is written every 20 updates. A training that finds its own checkpoint there
            goes on from it. The first Ctrl-C ends the training after an update, with a checkpoint, by
            `TrainingInterrupted`; the second one at once.
    """
    gamma, settings = check_discount(discount), ControlProblem.config(model)
    config, limits = config or TrainingConfig(), dict(rates or {})
    data, settings, wanted = _prepared(data, settings, policy, starts=initial_states, rates=limits)
    _warn(f"{one.what}. {one.advice}" for one in [many_columns(data.schema)] if one)
    costs = _costs(constraints, data, settings, checkpoint)
    resumed = None
    if checkpoint is not None:
        identity = {"policy": wanted, "discount": gamma, "rates": limits}
        resumed = Checkpoint(checkpoint, run_fingerprint(data, model=settings, training=config, **identity))

    line = ProgressLine(visible=config.progress)
    line.note(f"fitting the model to {len(data):,} rows")
    problem = ControlProblem.from_data(data, gamma, model=settings, costs=costs)
    line.note(problem.note)
    unknown, doubt = unknown_starts(problem.local_model, starts := data.starts)
    _warn([doubt])
    made = partial(TrainingResult.of, fitted=problem, starts=starts, unknown_starts=unknown, seed=config.seed)
    stop, updates = (None if config.updates else on_plateau), config.updates or problem.default_updates
    config = replace(config, updates=updates, callbacks=(*config.callbacks, line))
    within = problem.model.action_limits if isinstance(problem, MultistepProblem) else None
    actor = build_policy(wanted, data, config.seed, limits=within, rates=limits)

    if not isinstance(problem, MultistepProblem):  # the paper's algorithm
        history = ascend(problem.estimator(), actor, config, checkpoint=resumed, stop=stop)
        line.close()
        solution = problem.solve(actor, seed=config.seed)
        return made(Controller(actor, data.schema), solution, history=history, start=INITIAL_POLICY)

    evaluator = OfflineEvaluator.of(problem)
    training = evaluator.at_further_set_points()
    for doubt in evaluator.doubts:
        line.note(f"no verdict will be ok: {doubt}")
    laws = regulators(training, line.stage)
    start, assessed = propose(actor, training, laws, config, line.stage)
    line.note(f"start: {start}")
    history, kept = improve(
        actor, training, assessed, config, constraints=constraints, checkpoint=resumed, note=line.note
    )
    line.stage("judging the controller by all rows and halves of the log")
    simple = limits if policy == "auto" and not constraints and not data.schema.levels else None
    judged = judge(training, Controller(actor, data.schema), laws, simple)
    judged = judged if training is evaluator else judged.assessed_by(evaluator)
    line.close()
    _warn(doubts_of(judged))
    start = f"{judged.kept} (kept: no network is better with 90 % probability)" if judged.kept else start
    found, chosen = judged.assessment, judged.controller
    solution = solution_under(problem, chosen.policy, paths=found.paths)
    return made(chosen, solution, found, evaluator=evaluator, history=history, start=start, constraints=kept)


def _prepared(
    data: Transitions | LogSummary,
    settings: ModelConfig,
    policy: Policy | NewPolicy,
    *,
    starts: ArrayLike | None,
    rates: Mapping[str, float],
) -> tuple[Transitions, ModelConfig, Policy | str | Formulas]:
    """Return the data with starts and derived columns, the model and the policy; refuse what cannot be."""
    rollouts = settings.has_rollouts
    if isinstance(data, LogSummary):
        changed = rates or not (isinstance(policy, Policy) or policy in NETWORKS)
        if changed or not isinstance(settings, LocalModelConfig):
            raise ArgumentError(
                "the summary of a log has sums for the local model and the columns that were read; take no "
                "other model, rates or structures"
            )
        settings, data = replace(settings, summary=data), data.sample
    check_log(data)
    data = data if starts is None else data.starting_at(starts)
    data, wanted = with_derived(data, policy, rates)
    check_policy(wanted, data, rollouts=rollouts)
    check_bounds(data)
    if rollouts:
        check_trainable(data)
    return data, settings, wanted


def _costs(
    constraints: Sequence[Constraint], data: Transitions, settings: ModelConfig, checkpoint: object
) -> torch.Tensor | None:
    """Return the costs (n, k) that the model has to fit; refuse limits that cannot be kept."""
    if constraints and not settings.has_rollouts:
        raise ArgumentError("limits are kept along rollouts, which only the local model has; leave model out")
    if constraints and checkpoint is not None:
        raise ArgumentError("a training with constraints keeps no checkpoints; leave checkpoint out")
    if constraints and isinstance(settings, LocalModelConfig) and settings.summary is not None:
        raise ArgumentError("the summary of a log has no costs of constraints; leave constraints out")
    return cost_columns(constraints, data)


def _warn(messages: Iterable[str | None]) -> None:
    """Warn at the line that called `optimize`."""
    for message in messages:
        if message is not None:
            warnings.warn(message, SupportWarning, stacklevel=4)
