"""How far the answer moves with what somebody had to choose: bandwidths, discount, prior mass."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nopg.data import Transitions
from nopg.evaluation import Imagination, ImaginedPlant, LoggedBehavior, PolicyLaw
from nopg.kernels import Bandwidths

__all__ = ["Variation", "vary"]

_NARROWER, _WIDER = 0.7, 1.4
_LONGER, _SHORTER = 0.5, 2.0
_LESS, _MORE = 0.1, 10.0
# Without halves nothing is said of the error, for an eighth of the time.
_POINT = Imagination(halves=0)


@dataclass(frozen=True, slots=True)
class Variation:
    """The answer with one choice changed.

    Attributes:
        what: Was changed.
        change: By how much.
        expected_return: Predicted.
        gain: Over the logged behaviour, changed alike.
        pessimistic_return: If leaving the data is as bad as anything that was logged.
        unknown_mass: The discounted probability of leaving the data.
    """

    what: str
    change: str
    expected_return: float
    gain: float
    pessimistic_return: float
    unknown_mass: float


def vary(policy: Any, data: Transitions, discount: float, bandwidths: Bandwidths) -> tuple[Variation, ...]:
    """Return the answer as it is, then with each choice changed to either side.

    A discount is changed by how far it looks ahead, 1/(1 − γ).

    Args:
        policy: Anything that acts without memory.
        data: The log.
        discount: γ.
        bandwidths: As chosen.
    """
    law = PolicyLaw.of(policy, data.schema)
    return tuple(
        _answer(what, change, law, plant) for what, change, plant in _plants(data, discount, bandwidths)
    )


def _plants(
    data: Transitions, discount: float, bandwidths: Bandwidths
) -> Iterator[tuple[str, str, ImaginedPlant]]:
    as_it_is = ImaginedPlant(data, discount, bandwidths=bandwidths, imagination=_POINT)
    yield "as it is", "", as_it_is
    for factor in (_NARROWER, _WIDER):
        h = replace(bandwidths, states=factor * bandwidths.states, actions=factor * bandwidths.actions)
        plant = ImaginedPlant(data, discount, bandwidths=h, imagination=_POINT)
        yield "bandwidths", f"× {factor:g}", plant
    for factor in (_LONGER, _SHORTER):
        gamma = max(1.0 - factor * (1.0 - discount), 0.0)
        plant = ImaginedPlant(data, gamma, bandwidths=bandwidths, imagination=_POINT)
        yield "discount", f"{discount:g} → {gamma:g}", plant
    for factor in (_LESS, _MORE):
        plant = copy.copy(as_it_is)  # fits and neighbours are the same
        plant.prior_mass = factor * plant.prior_mass
        yield "prior mass", f"× {factor:g}", plant


def _answer(what: str, change: str, law: PolicyLaw, plant: ImaginedPlant) -> Variation:
    paths = plant.imagine(law.mode)
    logged = plant.imagine(LoggedBehavior(plant.data, plant.bandwidths, seed=plant.imagination.seed))
    return Variation(
        what=what,
        change=change,
        expected_return=float(paths.returns[0].mean()),
        gain=float((paths.returns[0] - logged.returns[0]).mean()),
        pessimistic_return=float(paths.pessimistic[0].mean()),
        unknown_mass=float(paths.unknown[0].mean()),
    )
