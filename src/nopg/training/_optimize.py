"""From logged transitions to a controller and what it will do, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import ArrayLike
from nopg.baselines import Regulator
from nopg.bellman import ControlProblem, MultistepProblem
from nopg.data import Transitions
from nopg.data._bounds import check_bounds, check_log, check_trainable
from nopg.errors import ArgumentError, SupportWarning
from nopg.evaluation import OfflineEvaluator
from nopg.models._local_model import LocalModelConfig, ModelConfig
from nopg.models._log_summary import LogSummary
from nopg.policies import (
    ControlStructure,
    Formulas,
    GaussianMLPPolicy,
    MLPPolicy,
    Policy,
    QuantizedPolicy,
)
from nopg.policies._imitation import imitate
from nopg.policies._quantized import padded_levels
from nopg.policies._structures import Kind
from nopg.training._ascent import ascend
from nopg.training._checkpoint import Checkpoint, run_fingerprint
from nopg.training._config import CheckpointConfig, TrainingConfig
from nopg.training._constraints import Constraint, cost_columns
from nopg.training._controller import Controller
from nopg.training._improve import improve, solution_under
from nopg.training._judge import doubts_of, judge
from nopg.training._proposals import INITIAL_POLICY, PARTS, propose, regulators
from nopg.training._reports import ProgressLine, on_plateau
from nopg.training._result import TrainingResult, answer_of
from nopg.training._starts import start_support
from nopg.training._structured import check_rates, formula_policy, rate_limited, with_columns

NewPolicy = (
    Literal["auto", "deterministic", "gaussian", "p", "pi", "pid", "linear"] | ControlStructure | Formulas
)
"""What is trained: a type of network, or a controller by its structure or its formulas."""

_NETWORKS = ("auto", "deterministic", "gaussian")


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
    checkpoint: CheckpointConfig | str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a controller from logged transitions; only the discount has to be given.

    With the local model the result is evaluated before it is returned; a `SupportWarning` is given where the
    verdict is not `ok` or the controller is not better than what was logged.

    Args:
        data: The transitions, or the summary of a log that does not fit into memory.
        discount: γ in [0, 1): how much the future counts.
        policy: A policy to improve in place, which is one of the proposals that the ascent may begin with;
            or a new one. 'auto' is the supplement's network of 50 units, or the linear feedback of least
            squares and LQR where the network is not significantly better and there are no constraints or
            levels; 'deterministic' and 'gaussian' are networks. Or a controller by its structure, 'p', 'pi',
            'pid' or 'linear', or `ControlStructure('pi', follows={'level': 'setpoint'})`; or your own
            `Formulas`. Earlier values that a structure needs become columns of the data.
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
        checkpoint: A file for checkpoints, or a `CheckpointConfig`.
    """
    gamma, settings = check_discount(discount), ControlProblem.config(model)
    config, saving = config or TrainingConfig(), CheckpointConfig.of(checkpoint)
    limits = dict(rates or {})
    if isinstance(data, LogSummary):
        changed = bool(constraints or limits) or not (isinstance(policy, Policy) or policy in _NETWORKS)
        data, settings = _sample_of(data, settings, changed=changed)
    check_log(data)
    data = data if initial_states is None else data.starting_at(initial_states)
    data, wanted = _with_derived(data, policy, limits)
    _check(wanted, data, settings)
    if constraints and not settings.has_rollouts:
        raise ArgumentError("limits are kept along rollouts, which only the local model has; leave model out")
    if constraints and saving:
        raise ArgumentError("a training with constraints keeps no checkpoints; leave checkpoint out")
    costs = cost_columns(constraints, data)
    resumed = None
    if saving:
        named = {f"rate of {name}": rate for name, rate in limits.items()}
        identity = run_fingerprint(
            data, model=settings, training=config, discount=gamma, policy=wanted, **named
        )
        resumed = Checkpoint(saving, identity)

    line = ProgressLine(visible=config.progress)
    line.note(f"fitting the model to {len(data):,} rows")
    problem = ControlProblem.from_data(data, gamma, model=settings, costs=costs)
    line.note(problem.note)
    support = start_support(problem.local_model, data.starts)
    _warn([support.warning()])
    if isinstance(wanted, Policy):
        actor = wanted
    else:
        within = problem.multistep.model.action_limits if settings.has_rollouts else None
        actor = build_policy(wanted, data, config.seed, within)
    actor = rate_limited(actor, data, limits) if limits else actor
    stop = on_plateau if config.updates is None and not settings.has_rollouts else None
    config = replace(
        config, updates=config.updates or problem.default_updates, callbacks=(*config.callbacks, line)
    )
    if settings.has_rollouts:
        simple = limits if policy == "auto" and not constraints and not data.schema.levels else None
        controller, found = _by_rollouts(
            problem.multistep, actor, config, constraints, simple, checkpoint=resumed, line=line
        )
    else:
        controller, found = Controller(actor, data.schema), {"start": INITIAL_POLICY}
        found["history"] = ascend(problem.estimator(), actor, config, checkpoint=resumed, stop=stop)
        line.close()
    judged = found.get("assessment")
    paths = None if judged is None else judged.paths
    solution = solution_under(problem, controller.policy, seed=config.seed, paths=paths)
    return TrainingResult(
        policy=controller,
        start_support=support,
        seed=config.seed,
        support=problem.local_model.support,
        fitted=problem,
        solved=solution,
        **found,
        **answer_of(solution, judged),
    )


def _by_rollouts(
    problem: MultistepProblem,
    policy: Policy,
    config: TrainingConfig,
    constraints: Sequence[Constraint],
    rates: Mapping[str, float] | None,
    *,
    checkpoint: Checkpoint | None,
    line: ProgressLine,
) -> tuple[Controller, dict[str, Any]]:
    """Propose, improve, choose; a regulator that keeps `rates` may take the place of the policy."""
    evaluator = OfflineEvaluator.of(problem)
    training = evaluator.at_further_set_points()
    for doubt in evaluator.doubts:
        line.note(f"no verdict will be ok: {doubt}")
    laws: tuple[tuple[str, Regulator], ...] = ()
    if config.start == "given":
        name, start = INITIAL_POLICY, training.assess(policy, parts=PARTS)
    else:
        line.note("comparing starts on the model")
        laws = tuple(regulators(training))
        name, start = propose(policy, training, laws, seed=config.seed)
    line.note(f"start: {name}")
    history, limits = improve(
        policy, training, start, config, constraints=constraints, checkpoint=checkpoint, note=line.note
    )
    line.close()
    line.note("judging the controller by all rows and halves of the log")
    judged = judge(training, Controller(policy, problem.data.schema), laws, rates)
    judged = judged if training is evaluator else judged.assessed_by(evaluator)
    _warn(doubts_of(judged), stacklevel=5)
    if judged.kept:
        name = f"{judged.kept} (kept: no network is significantly better)"
    return judged.controller, {
        "assessment": judged.assessment,
        "history": history,
        "start": name,
        "constraints": limits,
    }


def _with_derived(
    data: Transitions, policy: Policy | NewPolicy, rates: Mapping[str, float]
) -> tuple[Transitions, Policy | str | Formulas]:
    """Return the data with the columns that a structure and limits of rates need, and the policy on them."""
    if not isinstance(policy, (Policy, ControlStructure, Formulas, str)):
        raise ArgumentError(
            f"a {type(policy).__name__} is not a policy of nopg; derive its class from "
            "nopg.policies.Deterministic and give it num_actions and mode(features)"
        )
    if isinstance(policy, str) and policy not in _NETWORKS:
        if policy not in get_args(Kind):
            known = ", ".join(map(repr, (*_NETWORKS, *get_args(Kind))))
            raise ArgumentError(
                f"there is no policy {policy!r}; choose one of {known}, or pass a ControlStructure or a "
                "Policy"
            )
        policy = ControlStructure(cast(Kind, policy))
    if isinstance(policy, (ControlStructure, Formulas)):
        data, policy = with_columns(policy, data)
    check_rates(rates, data)
    return (data.derive(lags=dict.fromkeys(rates, 1)) if rates else data), policy


def _check(policy: Policy | str | Formulas, data: Transitions, model: ModelConfig) -> None:
    """Refuse data that cannot be trained on, and a policy that cannot act on them."""
    if isinstance(policy, Policy):
        if policy.num_actions != data.actions.shape[1]:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {data.actions.shape[1]}"
            )
        if any(part.is_inference() for part in policy.parameters()):
            raise ArgumentError(
                "the policy was made under torch.inference_mode(), which forbids training; make it outside"
            )
    check_bounds(data)
    if model.has_rollouts:
        check_trainable(data)
    if not (levels := data.schema.levels):
        return
    if not (
        model.has_rollouts and (policy in ("auto", "deterministic") or isinstance(policy, QuantizedPolicy))
    ):
        raise ArgumentError(
            f"the actions {list(levels)} have levels; give policy='deterministic' and model='local', which "
            "keep them, or a QuantizedPolicy"
        )
    wanted = padded_levels(data.schema.actions, levels)
    if isinstance(policy, QuantizedPolicy) and not torch.equal(policy.levels, wanted.nan_to_num()):
        raise ArgumentError(
            f"the levels of the policy are {policy.levels.tolist()}, those of the data {wanted.tolist()}; "
            "they must be the same"
        )


def _sample_of(
    summary: LogSummary, settings: ModelConfig, *, changed: bool
) -> tuple[Transitions, ModelConfig]:
    """Return the sample of a summary, and the settings of a model of all rows."""
    if not isinstance(settings, LocalModelConfig) or changed:
        raise ArgumentError(
            "the summary of a log has sums for the local model and the columns that were read; take no other "
            "model, constraints, rates or structures"
        )
    return summary.sample, replace(settings, summary=summary)


def _warn(messages: Iterable[str | None], *, stacklevel: int = 4) -> None:
    """Warn at the line that called `optimize`."""
    for message in messages:
        if message is not None:
            warnings.warn(message, SupportWarning, stacklevel=stacklevel)


def build_policy(
    kind: str | Formulas, data: Transitions, seed: int, limits: torch.Tensor | None = None
) -> Policy:
    """Return the new policy that `optimize` trains: the supplement's network of a type, or formulas.

    Args:
        kind: `auto`, `deterministic` or `gaussian`, or formulas.
        data: Its inputs are standardised by these, and its gains scaled.
        seed: Of its weights.
        limits: Lowest and highest actions (2, d_a) where the model has rollouts, and the policy a portfolio
            of starts; a deterministic network then begins with linear laws near. Without, the policy keeps
            within the logged actions, and formulas begin as the logged controller.
    """
    rng, schema, weights = generator(seed, "policy"), data.schema, data.weights
    rollouts, actions = limits is not None, data.actions if limits is None else limits
    if isinstance(kind, Formulas):
        policy = formula_policy(kind, data, actions)
        if not rollouts:
            each = torch.ones(len(data), dtype=torch.float64) if weights is None else weights
            imitate(policy, data.features, data.actions, each)
        return policy
    if kind == "gaussian":
        return GaussianMLPPolicy.from_data(
            data.features, actions, rng=rng, num_action_samples=None, weights=weights
        )
    network = MLPPolicy.from_data(data.features, actions, rng=rng, linear=rollouts, weights=weights)
    return (
        QuantizedPolicy(network, padded_levels(schema.actions, schema.levels)) if schema.levels else network
    )
