"""The part of a bundle that acts: columns, policy and support, read and checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields
from nopg.errors import BundleError, DataError

__all__ = ["CONTROLLER", "WEIGHTS", "SavedController", "SavedSupport", "read_controller"]

CONTROLLER, WEIGHTS = "controller.json", "controller.safetensors"
"""The members that hold it."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SavedSupport:
    """S(z) = Σⱼ wⱼ exp(−½‖(z − zⱼ)/h‖²) over few representatives; see `nopg.models.CondensedSupport`.

    Attributes:
        places: State features of the representatives, shape (r, d_f).
        weights: How many states each stands for, shape (r,).
        width: h of each feature, shape (d_f,).
        prior_mass: β.
    """

    places: Numbers
    weights: Numbers
    width: Numbers
    prior_mass: float


@dataclass(frozen=True, slots=True)
class SavedController:
    """What is needed to act and to know where one is.

    Attributes:
        columns: Of observations and actions.
        policy: Its description; see `nopg.policies.describe_policy`.
        parameters: Of the policy, by name: finite floating-point numbers of any shape.
        support: Where the data are.
        place: Where it was read, for messages.
    """

    columns: Columns
    policy: Mapping[str, Any]
    parameters: Mapping[str, Array]
    support: SavedSupport
    place: str


def read_controller(bundle: Bundle) -> SavedController:
    """Return the columns, the policy and the support of a bundle.

    Columns and support fit each other; whether the parameters fit the policy is for its builder to say.
    """
    told, arrays = bundle.document(CONTROLLER), bundle.arrays(WEIGHTS)
    columns = _columns(told.object("schema"))
    return SavedController(
        columns,
        told.object("policy").values,
        _parameters(arrays, bundle),
        _support(told.object("support"), arrays, len(columns.features), bundle),
        f"{bundle.path}: {CONTROLLER}",
    )


def _columns(told: Fields) -> Columns:
    states, actions = told.texts("states"), told.texts("actions")
    units, bounds = told.object("units"), told.object("bounds")
    names = (*states, *actions)
    if not states or not actions or len(set(names)) < len(names):
        raise BundleError(f"{told.place}: the columns are {names}; there must be some, and distinct ones")
    try:
        return Columns(
            states,
            actions,
            told.numbers("angles"),
            {name: units.text(name) for name in units.names},
            {name: bounds.interval(name) for name in bounds.names},
        )
    except DataError as error:
        raise BundleError(f"{told.place}: {error}") from None


def _parameters(arrays: Mapping[str, Array], bundle: Bundle) -> dict[str, Array]:
    found = {
        name.removeprefix("policy."): value for name, value in arrays.items() if name.startswith("policy.")
    }
    for name, value in found.items():
        if not np.issubdtype(value.dtype, np.floating) or not np.isfinite(value).all():
            raise bundle.container.refuse(WEIGHTS, f"holds no finite numbers in policy.{name}")
    return found


def _support(told: Fields, arrays: Mapping[str, Array], features: int, bundle: Bundle) -> SavedSupport:
    places, weights, width = (
        _numbers(arrays, f"support.{name}", dimensions, bundle)
        for name, dimensions in (("places", 2), ("weights", 1), ("width", 1))
    )
    prior_mass = told.number("prior_mass")
    if places.shape != (len(weights), features) or len(width) != features or len(weights) == 0:
        raise bundle.container.refuse(WEIGHTS, "holds a support that does not fit the columns")
    if not prior_mass > 0 or not (weights > 0).all() or not (width > 0).all():
        raise bundle.container.refuse(
            WEIGHTS, "holds a support of weights, widths or β that are not positive"
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(places / width).all():
            raise bundle.container.refuse(WEIGHTS, "holds a support whose widths are too small")
    return SavedSupport(places, weights, width, prior_mass)


def _numbers(arrays: Mapping[str, Array], name: str, dimensions: int, bundle: Bundle) -> Numbers:
    value = arrays.get(name)
    if value is None or value.ndim != dimensions or value.dtype not in (np.float64, np.int64):
        raise bundle.container.refuse(WEIGHTS, f"lacks {name}, or holds something else there")
    if not np.isfinite(value).all():
        raise bundle.container.refuse(WEIGHTS, f"holds no finite numbers in {name}")
    return value.astype(np.float64)
