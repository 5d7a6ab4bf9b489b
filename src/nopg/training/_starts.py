"""Whether the initial states lie in the data, checked before training."""

from __future__ import annotations

import torch
from scipy.spatial import cKDTree

from nopg.data import Schema
from nopg.models import LocalModel

_SHOWN = 3
# Logged actions that are tried at a start: those of its nearest rows.
_ACTIONS = 5
_NO_DATA = 0.999


def unknown_starts(model: LocalModel, starts: torch.Tensor) -> tuple[torch.Tensor, str | None]:
    """Return the unknown share (n₀,) of raw initial states (n₀, d_s), and what to tell the user.

    It is that under a logged action of the nearest rows, the least of several.
    """
    data, rows = model.data, model.rows.first.sort().values
    logged, count = data.states[rows], min(_ACTIONS, len(rows))
    tree = cKDTree(model.state_space.embed(logged).numpy())
    _, found = tree.query(model.state_space.embed(starts).numpy(), k=[*range(1, count + 1)])
    near = rows[torch.as_tensor(found)]  # (n₀, k)
    pairs = torch.cat([starts.repeat_interleave(count, dim=0), data.actions[near.flatten()]], dim=1)
    unknown = torch.as_tensor(model.support.unknown(pairs)).view(-1, count).amin(dim=1)
    return unknown, _warning(data.schema, starts, unknown, data.states[near[:, 0]])


def _warning(
    schema: Schema, states: torch.Tensor, unknown: torch.Tensor, nearest: torch.Tensor
) -> str | None:
    outside = unknown > 0.5
    if (count := int(outside.sum())) == 0:
        return None

    def named(state: torch.Tensor) -> str:
        pairs = zip(schema.measured, state.tolist(), strict=False)  # derived columns follow from these
        return ", ".join(f"{name} = {value:.3g}" for name, value in pairs)

    turned, shown = states + schema.difference(states, nearest), []
    for row in outside.nonzero()[:_SHOWN, 0].tolist():
        share = float(unknown[row])
        amount = "there are no data" if share > _NO_DATA else f"the unknown share is {share:.2f}"
        shown.append(f"at ({named(states[row])}) {amount}, nearest logged: ({named(turned[row])})")
    who = f"{count} of {len(states)} initial states {'lies' if count == 1 else 'lie'}"
    who = "the initial state lies" if len(states) == 1 else who
    return (
        f"{who} outside the data: {'; '.join(shown)}{'; …' if count > _SHOWN else ''}. What is predicted "
        "from there is a guess. Log transitions that pass close by, with varied actions, or start where data "
        "are (initial_states=…)"
    )
