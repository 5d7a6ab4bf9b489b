"""The verdict on an assessment: what speaks against it, of the log and of the paths of one controller."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from nopg.evaluation._assessment import Verdict
from nopg.evaluation._paths import Paths, StartReturns
from nopg.inspect._findings import Finding, Grade
from nopg.inspect._wording import count_of, listed
from nopg.models import LocalModel
from nopg.models._residuals import RareRows, meanings

# Fewer moves of an exogenous column do not tell how it moves.
_FEWEST_MOVES = 30
# Limits of the unknown mass, of the share of starts that leave the data for good, and of the model's error
# over the range of returns that logged rewards allow.
WEAK_UNKNOWN, NO_UNKNOWN = 0.05, 0.2
_NO_LOST = 0.2
_WEAK_ERROR, _NO_ERROR = 0.05, 0.3
# How far beyond its logged range an action is untried, as a share of that range, and how much of the return's
# weight may lie there.
_BEYOND, _BEYOND_SHARE = 0.1, 0.25
# A start is lost where more than this share of its paths leaves the data for good.
_LOST = 0.5


def doubts_of_log(model: LocalModel, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return why no prediction from the log of a model is `ok`, whatever the controller."""
    found = []
    if fits := model.poor_fits:
        # What is missing biases fits alike in all halves, so the standard error does not show it.
        named = ", ".join(f"{fit.name} {fit.r_squared:.2f}" for fit in fits)
        known = "; a reward that is known can be given as a function" if fits[-1].name == "reward" else ""
        found.append(
            f"held-out rows are predicted badly, R²: {named} (log more rows or the columns that are missing"
            f"{known})"
        )
    if model.noise.jumps:
        found.append(
            f"{listed(model.noise.jumps)} jumps in some rows, as at an end stop, and the model spreads such "
            "jumps (leave these rows out if the controller stays away from there)"
        )
    for name, number in model.exogenous_moves.items():
        if number < _FEWEST_MOVES:
            times = count_of(number, "time")
            found.append(f"{name} moves {times} in the log, too few to tell how it will move")
    found += [
        f"{name} is logged in steps of {step:.3g}, more than it changes from row to row (log it finer or "
        "less often)"
        for name, step in model.coarse.items()
    ]
    advised = [(one.what, one.advice) for one in findings if one.grade is Grade.ERROR]
    advised += meanings(model.memory)
    return (*found, *(f"{what} ({advice[0].lower()}{advice[1:]})" for what, advice in advised))


def lost_starts(found: StartReturns, names: Sequence[str]) -> tuple[float, tuple[str, ...]]:
    """Return the share of starts that leave the data for good, and the reason that names their columns."""
    lost = found.lost > _LOST
    share = found.starts.mean(lost.double())
    if share == 0.0:
        return 0.0, ()
    worst = found.starts.states[int(found.lost.argmax())].tolist()
    where = ", ".join(f"{name} = {value:.3g}" for name, value in zip(names, worst, strict=False))
    count, number = len(found.lost), int(lost.sum())
    who = f"{share:.1%} of the starts leave" if found.starts.drawn else f"{number} of {count} starts leave"
    if count == 1:
        return share, (f"the start ({where}) leaves the data for good",)
    who = who if number > 1 or found.starts.drawn else f"{who}s"
    return share, (f"{who} the data for good, such as from ({where})",)


def rare_events(rare: RareRows | None, paths: Paths) -> tuple[str, ...]:
    """Return the reason that rows which nothing foretells speak against paths that come near to them."""
    if rare is None or not rare.near(paths.visited, paths.row_weights):
        return ()
    rows = "row is" if rare.count == 1 else "rows are"
    return (
        f"{rare.count} logged {rows} far from any prediction ({listed(rare.names)}), and the paths come as "
        "near to them as rows from which the log went there (leave them out if they are faults of the log)",
    )


def untried_actions(paths: Paths, model: LocalModel, names: Sequence[str]) -> tuple[str, ...]:
    """Return the reason that the log speaks of other actions than a controller takes most of the time.

    A fit that is straight within the logged actions says nothing of a bend or a limit beyond them.
    """
    weights, found = paths.row_weights, []
    low, high = (torch.as_tensor(end[model.num_states :]) for end in (model.support.low, model.support.high))
    actions = paths.actions[:, : len(paths.weights)].flatten(end_dim=1)
    beyond = torch.maximum(low - actions, actions - high) > _BEYOND * (high - low)
    for name, share in zip(names, (weights @ beyond.double() / weights.sum()).tolist(), strict=True):
        if share > _BEYOND_SHARE:
            found.append(
                f"{share:.0%} of the return's weight lies at values of {name} beyond the logged ones (log "
                "such actions, or bound those of the controller)"
            )
    return tuple(found)


def verdict_of(
    unknown: float,
    error: float,
    return_range: float,
    *,
    doubts: Sequence[str] = (),
    lost: float = 0.0,
    one_group: bool = False,
    findings: Sequence[Finding] = (),
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a prediction by its unknown mass and error, and the reasons why it is not `ok`.

    The error is a share of the range of returns that logged rewards allow. `doubts` are of the log and of the
    paths, `lost` is the share of starts that leave the data for good, one group a log of a single row. What
    `findings` of `describe` say about an action explains an unknown mass.
    """
    relative = error / return_range if return_range > 0 and math.isfinite(error) else 0.0
    found = ["a single row gives no estimate of the error"] if one_group else []
    if unknown > WEAK_UNKNOWN:
        found.append(f"{unknown:.0%} of the return's weight lies outside the data")
        found += [one.what for one in findings if one.topic == "excitation" and one.grade is Grade.WARNING]
    if relative > _WEAK_ERROR:
        found.append(
            f"the standard error is {relative:.0%} of the range of returns that logged rewards allow"
        )
    found += doubts
    if unknown > NO_UNKNOWN or lost > _NO_LOST or relative > _NO_ERROR or one_group:
        return "not identifiable", tuple(found)
    return ("weak" if found else "ok"), tuple(found)
