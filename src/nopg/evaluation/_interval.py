"""Standard error, interval and verdict of a return, from all rows and from halves of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch

from nopg.bellman._multistep_solution import INFLATION
from nopg.evaluation._model_paths import ModelPaths
from nopg.inspect._findings import Finding, Grade
from nopg.inspect._wording import count_of, listed
from nopg.models import ColumnFit
from nopg.models._noise import Noise

__all__ = [
    "DEVIATIONS",
    "NO_UNKNOWN",
    "WEAK_UNKNOWN",
    "Verdict",
    "cautious_return",
    "is_preferable",
    "is_surely_better",
    "lower_return",
    "resolution",
    "standard_error",
    "verdict_of",
]

Verdict = Literal["ok", "weak", "not identifiable"]

DEVIATIONS = 1.96
# The least standard error as a share of the estimate.
_FINEST = 0.01
# A gain below this share of the resolution is none: nobody would see it.
_VISIBLE = 0.1
# Fewer moves of an exogenous column do not tell how it moves.
_FEWEST_MOVES = 30
# The log shows the end of a task to half a step, to all halves alike.
_HALF_A_STEP = 0.5
# Limits of the unknown mass, and of the standard error over the range of returns that logged rewards allow.
WEAK_UNKNOWN, NO_UNKNOWN = 0.05, 0.2
_WEAK_ERROR, _NO_ERROR = 0.05, 0.3
_FEWEST_EPISODES = 6


def standard_error(values: torch.Tensor, paths: ModelPaths, *, floor: bool = False) -> float:
    """Return the standard error of a mean over paths, such as that of their returns.

    Estimates from half the rows err more, to the same side where fits are too stiff and to either side where
    they are uncertain; their deviation from the estimate measures its error. Without halves it is infinite.

    Args:
        values: Values of every part and path, shape (P, m): all rows first, then the halves.
        paths: The paths.
        floor: Whether the values are returns, whose error is at least their resolution, and counts what
            held-out rows say of it and that the end of a task is known to a step.
    """
    value, *halves = values.mean(dim=1).tolist()
    if not halves:
        return math.inf
    apart = math.sqrt(sum((half - value) ** 2 for half in halves) / len(halves))
    error = math.hypot(INFLATION * apart, _chance_error(values[0], paths.repeats))
    if not floor:
        return error
    ends = _HALF_A_STEP * float(paths.end_rewards[0].mean())
    return max(math.hypot(error, ends, paths.held_out.bias), resolution(value))


def resolution(value: float) -> float:
    """Return the least standard error of an estimate, a hundredth of it."""
    return _FINEST * abs(value)


def _chance_error(values: torch.Tensor, repeats: int) -> float:
    """Return the standard error that noise leaves in a mean (m,) over repeated starts."""
    if repeats == 1:
        return 0.0
    by_start = values.view(repeats, -1)
    return float((by_start.var(dim=0).mean() / by_start.numel()).sqrt())


def lower_return(paths: ModelPaths) -> float:
    """Return the lower end of a controller's return; leaving the data has the least value."""
    return float(_worst(paths)[0]) - DEVIATIONS * standard_error(paths.returns, paths, floor=True)


def cautious_return(paths: ModelPaths) -> float:
    """Return what controllers are compared by in a training: the lower end of what differs between them.

    An interval has the whole bias on held-out rows. Of two controllers that go the same way it differs by
    chance, so that the lower of two ends would often be the less lucky one: here the bias counts where less
    is earned than predicted, as far as chance does not explain it.
    """
    error = math.hypot(standard_error(paths.returns, paths), paths.held_out.shortfall)
    return float(_worst(paths)[0]) - DEVIATIONS * error


def is_surely_better(one: ModelPaths, other: ModelPaths) -> bool:
    """Tell whether a controller earns more than another one on the same model, beyond doubt.

    That is where its gain, in which errors that both share cancel, exceeds what the log leaves open of it, or
    where it is better by all halves of the log: a controller whose return is all but unknown may be worse.
    The gain is the smaller of two, with leaving the data as if they went on, and with the least value there.
    A gain of less than a thousandth of the return is none.
    """
    expected = one.returns.mean(dim=1) - other.returns.mean(dim=1)
    gains, biases = torch.minimum(_worst(one) - _worst(other), expected), one.held_out.less(other.held_out)
    if float(gains[0]) <= _VISIBLE * resolution(float(_worst(other)[0])):
        return False
    error = math.hypot(standard_error(one.returns - other.returns, one), biases.shortfall)
    always = len(gains) > 1 and bool((gains > biases.shortfall).all())
    return always or float(gains[0]) > DEVIATIONS * error


def is_preferable(one: ModelPaths, other: ModelPaths) -> bool:
    """Tell whether a training keeps a controller rather than another one.

    Where one of them is better beyond doubt, that one; else the one with the higher lower end. Lower ends
    alone would leave what both share in the comparison, which is often much more than their difference.
    """
    if is_surely_better(one, other):
        return True
    return cautious_return(one) > cautious_return(other) and not is_surely_better(other, one)


def _worst(paths: ModelPaths) -> torch.Tensor:
    """Return the expected returns (P,); leaving the data has the least value, unless that is higher."""
    return torch.minimum(paths.pessimistic.mean(dim=1), paths.returns.mean(dim=1))


def verdict_of(
    unknown: float,
    error: float,
    return_range: float,
    *,
    episodes: int,
    alone: bool = False,
    poor_fits: Sequence[ColumnFit] = (),
    noise: Noise | None = None,
    moves: Mapping[str, int] | None = None,
    findings: Sequence[Finding] = (),
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on an estimate, and the reasons why it is not `ok`.

    Args:
        unknown: The unknown mass.
        error: The standard error.
        return_range: Range of the returns that logged rewards allow.
        episodes: Number of episodes, or of parts or rows that are used as episodes.
        alone: Whether all rows are of one episode.
        poor_fits: Columns with poor predictions of held-out rows. What is missing biases fits alike in all
            halves, so the standard error does not show it.
        noise: Of the plant and its sensors; halves share what is wrong with it too.
        moves: Number of moves in the log of exogenous columns that move as in the log, by name.
        findings: Of `describe`. None may say `stop` beside an `ok`; and what the log cannot tell about an
            action explains an unknown mass.
    """
    relative = error / return_range if return_range > 0 and math.isfinite(error) else 0.0
    found: list[str] = []
    if episodes == 1:
        found.append("a single episode or row gives no estimate of the error")
    elif alone:
        found.append("a single episode, whose tenths are used as episodes")
    elif episodes < _FEWEST_EPISODES:
        found.append(f"halves of {episodes} episodes tell little about the error")
    if unknown > WEAK_UNKNOWN:
        found.append(f"{unknown:.0%} of the return's weight lies outside the data")
    if relative > _WEAK_ERROR:
        found.append(
            f"the standard error is {relative:.0%} of the range of returns that logged rewards allow"
        )
    if poor_fits:
        named = ", ".join(f"{fit.name} {fit.r_squared:.2f}" for fit in poor_fits)
        known = (
            "; a reward that is known can be given as a function" if poor_fits[-1].name == "reward" else ""
        )
        found.append(
            f"held-out rows are predicted badly, R²: {named} (log more rows or the columns that are missing"
            f"{known})"
        )
    if noise and noise.jumps:
        found.append(
            f"{listed(noise.jumps)} jumps in some rows, as at an end stop, and the model spreads such "
            "jumps (leave these rows out if the controller stays away from there)"
        )
    found += [
        f"{name} moves {count_of(number, 'time')} in the log, too few to tell how it will move"
        for name, number in (moves or {}).items()
        if number < _FEWEST_MOVES
    ]
    for finding in findings:
        if finding.grade is Grade.STOP:
            found.append(f"{finding.what} ({finding.advice[0].lower()}{finding.advice[1:]})")
        elif finding.topic == "excitation" and finding.grade is Grade.LOOK and unknown > WEAK_UNKNOWN:
            found.append(finding.what)
    if unknown > NO_UNKNOWN or relative > _NO_ERROR or episodes == 1:
        return "not identifiable", tuple(found)
    return ("weak" if found else "ok"), tuple(found)
