"""Whether the initial states lie in the data, checked before training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree

from nopg.data import Schema
from nopg.models import LocalModel

_SHOWN = 3
# Logged actions that are tried at a start: those of its nearest rows.
_ACTIONS = 5
_NO_DATA = 0.999


@dataclass(frozen=True, slots=True, repr=False)
class StartSupport:
    """The initial states and how far the data speak for them.

    Attributes:
        schema: Names of the columns.
        states: Raw initial states, shape (n₀, d_s).
        unknown: The unknown share of each under a logged action of its nearest rows, the least of several,
            shape (n₀,).
        nearest: The logged state nearest to each, shape (n₀, d_s).
    """

    schema: Schema
    states: torch.Tensor
    unknown: torch.Tensor
    nearest: torch.Tensor

    @property
    def outside(self) -> torch.Tensor:
        """Which initial states lie outside the data, shape (n₀,)."""
        return self.unknown > 0.5

    def warning(self) -> str | None:
        """Return what to tell the user, or None if every start is inside the data."""
        count = int(self.outside.sum())
        if count == 0:
            return None
        turned, shown = self.states + self.schema.difference(self.states, self.nearest), []
        for row in self.outside.nonzero()[:_SHOWN, 0].tolist():
            unknown = float(self.unknown[row])
            amount = "there are no data" if unknown > _NO_DATA else f"the unknown share is {unknown:.2f}"
            nearest = f"the nearest logged state is ({self._named(turned[row])})"
            shown.append(f"at ({self._named(self.states[row])}) {amount}, {nearest}")
        who = f"{count} of {len(self.states)} initial states {'lies' if count == 1 else 'lie'}"
        if len(self.states) == 1:
            who = "the initial state lies"
        return (
            f"{who} outside the data: {'; '.join(shown)}{'; …' if count > _SHOWN else ''}. What is predicted "
            "from there is a guess. Log transitions that pass close by, with varied actions, or start where "
            "data are (initial_states=…)"
        )

    def __repr__(self) -> str:
        outside = int(self.outside.sum())
        return f"StartSupport({len(self.states)} initial states, {outside} outside the data)"

    def _named(self, state: torch.Tensor) -> str:
        pairs = zip(self.schema.measured, state.tolist(), strict=False)  # derived columns follow from these
        return ", ".join(f"{name} = {value:.3g}" for name, value in pairs)


def start_support(model: LocalModel, starts: torch.Tensor) -> StartSupport:
    """Return what the data of a model know of raw initial states (n₀, d_s), before there is a policy."""
    data, rows = model.data, model.rows.first.sort().values
    logged, count = data.states[rows], min(_ACTIONS, len(rows))
    tree = cKDTree(model.state_space.embed(logged).numpy())
    _, found = tree.query(model.state_space.embed(starts).numpy(), k=[*range(1, count + 1)])
    near = rows[torch.as_tensor(found)]  # (n₀, k)
    pairs = torch.cat([starts.repeat_interleave(count, dim=0), data.actions[near.flatten()]], dim=1)
    unknown = torch.as_tensor(model.support.unknown(pairs)).view(-1, count).amin(dim=1)
    return StartSupport(data.schema, starts, unknown, data.states[near[:, 0]])
