"""What a log tells about the effect of each action: its excitation at a given state."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree

from nopg.data import Transitions
from nopg.data._held_out import spread_rows
from nopg.inspect._findings import Finding, graded, ok
from nopg.inspect._wording import count_of, listed, share_of
from nopg.models._excitation import Excitation, noise_share
from nopg.models._regression_rows import RegressionRows
from nopg.models._sums import GlobalFit

_ROWS = 50_000
# Standard error of the effect of a usual change of an action, in spreads of the column it is worst for.
_GRAVE_DOUBT, _MINOR_DOUBT, _AIM = 0.5, 0.15, 0.05
# An action with a smaller share of its spread at a given state always follows the states.
_ALWAYS = 0.01
# Where rows nearby leave a smaller share of what all rows leave, the excitation is elsewhere, as where an
# action is at its bounds. The doubt about an effect of which nothing is known.
_ELSEWHERE, _NO_IDEA = 0.5, 10.0
_PLACES, _ROWS_PER_FEATURE = 200, 3
# The least share of an action's spread that is advised as the size of a test signal.
_LEAST_SIZE = 0.1
# A state whose usual change goes with less than this share of the action's is not named.
_NAMED = 0.1
# A smaller independent variation is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ActionExcitation:
    """What a log tells about the effect of one action.

    Attributes:
        own: Its standard deviation at a given state: what a linear function of the state leaves, of all rows
            or, if that is less, of rows nearby.
        spread: Its standard deviation in the log.
        follows: State columns that it goes with, the closest first.
        doubt: Standard error of the effect of its change by its spread at a given state, in units of the
            spread of a state's step; of the `column` where it is largest.
        size: Largest step to either side of uniform random steps, added to the action in `num_rows` rows,
            that would remove the doubt. Two levels would not do: a quadratic effect looks like a constant.
    """

    name: str
    unit: str
    own: float
    spread: float
    follows: tuple[str, ...]
    doubt: float
    column: str
    size: float
    num_rows: int

    def __str__(self) -> str:
        share = self.own / self.spread
        return f"{self.name} {share_of(share if share > _ROUNDING else 0.0)} independent variation"

    @classmethod
    def of(cls, data: Transitions) -> tuple[ActionExcitation, ...]:
        """Return the excitation of every action that varies, from a sample of a large log."""
        if len(data) > _ROWS:
            data = data.take(spread_rows(data, _ROWS, purpose="rows of excitation"))
        rows, d_s = RegressionRows.of(data), data.states.shape[1]
        excitation = Excitation.of(rows)
        known = {*data.schema.exogenous, *data.schema.derived}  # no action has an effect to be found on them
        moving = [k for k, name in enumerate(data.schema.states) if rows.spread[k] > 0 and name not in known]
        actions = [column for column in excitation.varies.nonzero()[:, 0].tolist() if column >= d_s]
        if not moving or not actions:
            return ()
        features = rows.space.features(rows.inputs, excitation.varies, 1)
        left = GlobalFit.of(rows, features, moving).residual
        noise = noise_share(left, rows.spread[moving])
        slopes = torch.stack([excitation.uncertainty(one[None]) for one in noise]).diagonal(dim1=1, dim2=2)
        states = excitation.varies.clone()
        states[d_s:] = False
        number, loudest = len(rows), float(noise.max().sqrt())
        found = []
        for column in actions:
            place = int(excitation.feature_of(column))
            worst = int(slopes[:, place].argmax())
            spread = float(rows.inputs[:, column].std(correction=0))
            everywhere, follows = _given_states(rows, states, column)
            own = min(_at_a_place(rows, states, column), everywhere)
            doubt = float(slopes[worst, place].sqrt())
            if own < _ELSEWHERE * everywhere:  # what excitation there is lies at other places
                doubt = min(doubt * everywhere / max(own, 1e-300), _NO_IDEA)
            size = max(loudest * math.sqrt(3.0 / number) / _AIM, _LEAST_SIZE) * spread
            name = data.schema.actions[column - d_s]
            unit, leaders = data.schema.units.get(name, ""), tuple(data.schema.states[k] for k in follows)
            where = data.schema.states[moving[worst]]
            found.append(cls(name, unit, own, spread, leaders, doubt, where, size, number))
        return tuple(found)


def _given_states(rows: RegressionRows, states: torch.Tensor, column: int) -> tuple[float, list[int]]:
    """Return the deviation of an input from a linear function of the states, and the states it follows."""
    X, y = rows.space.features(rows.inputs, states, 1), rows.inputs[:, column]
    fit = torch.linalg.lstsq(X, y[:, None], driver="gelsd").solution[:, 0]
    own = float((y - X @ fit).square().mean().sqrt())
    goes_with = dict[int, float]()
    feature = 1
    for state in states.nonzero()[:, 0].tolist():
        width = 2 if rows.space.periods[state] > 0 else 1
        part = X[:, feature : feature + width] @ fit[feature : feature + width]
        goes_with[state] = float(part.std(correction=0))
        feature += width
    least = _NAMED * float(y.std(correction=0))
    return own, sorted((k for k in goes_with if goes_with[k] > least), key=lambda k: -goes_with[k])


def _at_a_place(rows: RegressionRows, states: torch.Tensor, column: int) -> float:
    """Return the deviation of an input from linear functions of the states of rows nearby, in the median."""
    X, y = rows.space.features(rows.inputs, states, 1), rows.inputs[:, column]
    K = min(_ROWS_PER_FEATURE * (X.shape[1] + 1), len(rows))
    points = rows.space.embed(rows.inputs, states.double())
    _, found = cKDTree(points.numpy()).query(points[rows.sample[:_PLACES]].numpy(), k=K)
    near = torch.as_tensor(found).reshape(-1, K)
    x, target = X[near], y[near][:, :, None]
    left = target - x @ torch.linalg.lstsq(x, target, driver="gelsd").solution
    deviation = (left.square().sum(dim=1) / max(K - X.shape[1], 1)).sqrt()
    return float(deviation.median())


def excitation_finding(actions: tuple[ActionExcitation, ...]) -> Finding | None:
    """Return the finding about the action whose effect is the least certain; None without actions."""
    if not actions:
        return None
    worst = max(actions, key=lambda action: action.doubt)
    if worst.doubt <= _MINOR_DOUBT:
        return ok("excitation", f"{worst}, the least certain of the actions")
    leader = f" of {listed(worst.follows)}" if worst.follows else " of the state"
    follows = "a function" if worst.own < _ALWAYS * worst.spread else "almost a function"
    grave = worst.doubt > _GRAVE_DOUBT
    effect = "cannot be identified" if grave else "is poorly identified"
    size = f"±{worst.size:.2g} {worst.unit}".strip()
    return graded(
        "excitation",
        f"{worst.name} is {follows}{leader} ({str(worst).removeprefix(worst.name + ' ')}): its effect on "
        f"{worst.column} {effect}",
        f"Add random steps of up to {size} to {worst.name}, a new one in every sample, for "
        f"{count_of(worst.num_rows, 'row')}; steps of half that size take four times as long",
        grave=grave,
    )
