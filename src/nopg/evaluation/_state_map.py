"""Values, visits, actions and what is unknown over one or two state columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import FloatArray
from nopg.bellman import Solution
from nopg.data import Schema
from nopg.evaluation._slice import StateSlice, slice_states
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS

__all__ = ["Estimate", "StateMap", "map_states"]

Estimate = Literal["actions", "value", "visitation"]
"""An estimate on a map."""


@dataclass(frozen=True, slots=True, eq=False)
class StateMap:
    """Estimates of a solution on a grid over one or two state columns; arrays have the shape of the grid.

    Attributes:
        slice: The grid, and where the other columns are held.
        value: V̂.
        visitation: μ̃, the discounted visits.
        unknown: m, the unknown mass, in [0, 1].
        support: Effective number of samples there.
        actions: Actions of the policy without exploration; the action columns last.
        starts: Raw initial states, shape (n₀, d_s).
    """

    slice: StateSlice
    value: FloatArray
    visitation: FloatArray
    unknown: FloatArray
    support: FloatArray
    actions: FloatArray
    starts: FloatArray

    @property
    def schema(self) -> Schema:
        """Names, units and angles of the columns."""
        return self.slice.schema

    @property
    def lack(self) -> FloatArray:
        """The log of m/(1 − m), positive outside the data and smooth, so that its zero can be drawn.

        For a model without prior mass the support is compared with the default of 10⁻⁶ samples.
        """
        if not self.unknown.any():
            return math.log(DEFAULT_PRIOR_MASS) - _log(self.support)
        return _log(self.unknown) - _log(1.0 - self.unknown)

    @property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Where the unknown mass is above a half: outside the data."""
        return np.asarray(self.lack > 0)

    def table(self, *estimates: Estimate) -> dict[str, FloatArray]:
        """Return columns of equal length by name, one row per state of the grid.

        Every state column, the estimates (all by default), then `unknown` and `support`. An estimate with the
        name of a column of the data gets an underscore.

        Args:
            estimates: Of "actions", "value" and "visitation".
        """
        asked = estimates or get_args(Estimate)
        table: dict[str, FloatArray] = dict(
            zip(self.schema.states, self.slice.states().numpy().T, strict=True)
        )
        if "actions" in asked:
            columns = self.actions.reshape(-1, len(self.schema.actions)).T
            table |= zip(self.schema.actions, columns, strict=True)
        taken = {*self.schema.states, *self.schema.actions}
        for name in (*(name for name in asked if name != "actions"), "unknown", "support"):
            table[_free(name, taken)] = getattr(self, name).ravel()
        return table


def _free(name: str, taken: Collection[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _log(x: FloatArray) -> FloatArray:
    """Return log x, finite at 0."""
    return np.asarray(np.log(np.maximum(x, np.finfo(np.float64).tiny)))


def map_states(
    solution: Solution,
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    held: Mapping[str, float] | None = None,
    points: int | None = None,
) -> StateMap:
    """Return the estimates of a solution over one or two state columns.

    Args:
        solution: The solution, with its policy.
        schema: Of the data behind it.
        columns: One or two state columns; by default the two along which the visits spread most, see
            `slice_states`.
        held: Values of other columns; by default those of a typical visited state.
        points: Number of values of each axis; 61, or 401 for a single column.

    Example:
        >>> import nopg
        >>> from nopg.envs import Pendulum, collect_grid
        >>> data, one = collect_grid(Pendulum(), (8, 8, 2)), nopg.TrainingConfig(updates=1)
        >>> result = nopg.optimize(data, 0.9, model="paper", config=one)
        >>> found = map_states(result.solution, result.policy.schema, points=5)
        >>> found.slice.columns, found.value.shape, found.actions.shape
        (('angle', 'velocity'), (5, 5), (5, 5, 1))
    """
    where = slice_states(solution, schema, columns=columns, held=held, points=points)
    features, starts = schema.encode(where.states()), solution.problem.initial_states
    found = solution.at(features)
    with torch.no_grad():
        actions = solution.policy.mode(features)

    def on_grid(values: torch.Tensor) -> FloatArray:
        return values.double().numpy().reshape(*where.shape, *values.shape[1:])

    return StateMap(
        slice=where,
        value=on_grid(found.value),
        visitation=on_grid(found.visitation),
        unknown=on_grid(found.unknown),
        support=on_grid(found.support),
        actions=on_grid(actions),
        starts=schema.decode(schema.encode(starts)).numpy(),  # angles within half a turn of 0
    )
