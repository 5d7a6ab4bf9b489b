"""Gradient ascent on any estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from nopg._seeding import generator
from nopg.bellman._estimate import GradientEstimator
from nopg.errors import ArgumentError, TrainingInterrupted
from nopg.policies import Policy
from nopg.policies._policy import trainable
from nopg.training._backtracking import Backtracking
from nopg.training._checkpoint import Checkpoint, Checkpoints
from nopg.training._interruption import Interruption
from nopg.training._reports import Callback, Update

__all__ = ["ascend", "check_ascent"]


def check_ascent(updates: int, learning_rate: float) -> None:
    """Refuse what no ascent can be made with."""
    if updates < 1 or not learning_rate > 0:
        raise ArgumentError(f"updates = {updates}, learning_rate = {learning_rate}; both must be positive")


def ascend(
    estimator: GradientEstimator,
    policy: Policy,
    *,
    updates: int,
    learning_rate: float,
    seed: int,
    callbacks: Sequence[Callback] = (),
    stop: Callback | None = None,
    checkpoints: Checkpoints | None = None,
    backtracking: Backtracking | None = None,
) -> tuple[Update, ...]:
    """Improve the policy in place with Adam, and return the history.

    The noise of the actions is the same in every update, so the objective is one function.

    Args:
        estimator: Of the gradient.
        policy: The policy, changed in place.
        updates: How many steps at most.
        learning_rate: Adam's.
        seed: Of the action noise.
        callbacks: Called after every update; one that returns True ends the training.
        stop: Like a callback; after a restart it also hears of the updates before.
        checkpoints: Where to begin, if there is one, and where to leave them. With checkpoints the first
            Ctrl-C ends the ascent after an update, by `TrainingInterrupted`.
        backtracking: Of an objective that is one smooth function: the best policy is kept, and the steps
            follow what they have gained.
    """
    check_ascent(updates, learning_rate)
    updates = int(updates)  # numpy's are not for JSON
    optimizer = torch.optim.Adam(trainable(policy), lr=learning_rate, maximize=True)
    history: list[Update] = []

    def save(*, finished: bool = False) -> None:
        if checkpoints:
            checkpoints.write(
                Checkpoint.of(
                    policy,
                    optimizer,
                    estimator,
                    history=tuple(history),
                    finished=finished,
                    resume_state=checkpoints.resume_state,
                    backtracking=backtracking,
                )
            )

    if checkpoints and (last := checkpoints.restore(policy, optimizer, estimator, backtracking)):
        history += last.history
        verdicts = [stop(update) for update in history] if stop else []
        if last.finished or any(verdicts):
            if backtracking:
                backtracking.finish(policy)
            return tuple(history)
    else:
        save()

    with Interruption(heard=checkpoints is not None) as interruption:
        for number in range(len(history) + 1, updates + 1):
            update = _step(
                estimator,
                policy,
                optimizer,
                number=number,
                planned=updates,
                learning_rate=learning_rate,
                seed=seed,
                backtracking=backtracking,
            )
            history.append(update)
            verdicts = [callback(update) for callback in (*callbacks, *([stop] if stop else []))]  # all hear
            ended = any(verdicts) or number == updates
            if checkpoints:
                due, interrupted = checkpoints.agree(number, interrupted=interruption.asked)
                if due or interrupted or ended:
                    save(finished=ended)
                if interrupted:
                    raise TrainingInterrupted(number, str(checkpoints.folder))
            if ended:
                break
    if backtracking:
        backtracking.finish(policy)
    return tuple(history)


def _step(
    estimator: GradientEstimator,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    *,
    number: int,
    planned: int,
    learning_rate: float,
    seed: int,
    backtracking: Backtracking | None,
) -> Update:
    """Make one update of the policy."""
    began = time.perf_counter()
    policy.progress((number - 1) / max(planned - 1, 1))
    estimate = estimator.estimate(policy, rng=generator(seed, "actions"))
    for parameter, part in zip(trainable(policy), estimate.direction, strict=True):
        parameter.grad = part
    if number == 1:
        # Adam's own 10⁻⁸ is a size of gradient; in units of the first one, rewards have no unit, and a
        # start that the data hardly know still shows the way.
        optimizer.param_groups[0]["eps"] = 1e-8 * estimate.norm or 1e-8
    if backtracking:
        backtracking.review(policy, optimizer, estimate.expected_return, estimate.direction)
        optimizer.param_groups[0]["lr"] = learning_rate * backtracking.scale
    optimizer.step()
    return Update(
        number=number,
        planned=planned,
        expected_return=estimate.expected_return,
        gradient_norm=estimate.norm,
        unknown_mass=estimate.diagnostics.get("unknown_mass", 0.0),
        products=int(estimate.diagnostics.get("products", 0)),
        seconds=time.perf_counter() - began,
    )
