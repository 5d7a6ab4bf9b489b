"""Gradient ascent on any estimator."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.gradients import GradientEstimator, Resumable
from nopg.policies import Policy, trainable
from nopg.training._checkpoint import Checkpoints, Progress
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
        checkpoints: Where to begin, if there is one, and where to leave them.
    """
    check_ascent(updates, learning_rate)
    parameters = trainable(policy)
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, maximize=True)
    history: list[Update] = []
    resumable = estimator if isinstance(estimator, Resumable) else None
    nodes = resumable.num_nodes if resumable else 0
    if checkpoints and (progress := checkpoints.load(policy, optimizer, nodes)):
        history += progress.history
        if resumable:
            resumable.resume(progress.start)
        verdicts = [stop(update) for update in history] if stop else []
        if any(verdicts):
            return tuple(history)

    for number in range(len(history) + 1, updates + 1):
        policy.progress((number - 1) / max(updates - 1, 1))
        estimate = estimator.estimate(policy, rng=generator(seed, "actions"))
        for parameter, part in zip(parameters, estimate.direction, strict=True):
            parameter.grad = part
        if number == 1:
            # Adam's own 10⁻⁸ is a size of gradient; in units of the first one, rewards have no unit, and a
            # start that the data hardly know still shows the way.
            optimizer.param_groups[0]["eps"] = 1e-8 * estimate.norm or 1e-8
        optimizer.step()

        update = Update(
            number=number,
            planned=updates,
            expected_return=estimate.expected_return,
            gradient_norm=estimate.norm,
            unknown_mass=estimate.diagnostics.get("unknown_mass", 0.0),
            products=int(estimate.diagnostics.get("products", 0)),
        )
        history.append(update)
        verdicts = [callback(update) for callback in (*callbacks, *([stop] if stop else []))]  # all hear it
        if checkpoints and number % checkpoints.every == 0:
            start = resumable.pause() if resumable else None
            checkpoints.save(policy, optimizer, Progress(tuple(history), start))
        if any(verdicts):
            break
    return tuple(history)
