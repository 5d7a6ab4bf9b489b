"""Whether a log supports a linear controller of the regulator, by the rows alone: no gradient is computed."""

from __future__ import annotations

import torch

from nopg import Bandwidths, select_bandwidths
from nopg.data import Transitions
from nopg.envs import LQR
from studies.paper._lqr_data import rows_within

__all__ = ["SUPPORTED_SHARE", "WORKING_RANGE", "Support", "nopg_bandwidths"]

# Where the regulator is to work, three times the start; bandwidths are selected there.
WORKING_RANGE = 3.0
# A slope needs a wider kernel than a mean. Chosen by cosines on the datasets 0 to 4 and 10 to 14.
_ACTION_FACTOR = 1.5
# A slope in d_a = 2 actions needs three rows. Steps: one effective horizon, 1/(1 − γ).
_ROWS_NEEDED, _PATH = 3.0, 10
# Most of the visits.
SUPPORTED_SHARE = 0.5


def nopg_bandwidths(data: Transitions) -> Bandwidths:
    """Return the bandwidths of NOPG: leave-one-out on the rows within ±3, the actions' times 1.5."""
    h = select_bandwidths(rows_within(data, WORKING_RANGE))
    return Bandwidths.from_values(h.states, _ACTION_FACTOR * h.actions, source=h.source)


class Support:
    """The share of a controller's discounted visits where the log has rows for a slope in the actions.

    The controller is followed from (1, 1) for ten steps of a linear least-squares fit to the rows, as long as
    they stay within ±3. A visit counts if the kernels ψφ of all rows sum to 3 there or more. From half on,
    gains are supported.

    Args:
        data: The log.
        bandwidths: Of ψ and φ.
    """

    def __init__(self, data: Transitions, bandwidths: Bandwidths) -> None:
        self._data, self._h = data, bandwidths
        near = rows_within(data, WORKING_RANGE)
        self._plant = torch.linalg.lstsq(torch.cat([near.states, near.actions], dim=1), near.next_states)[0]

    def share(self, gains: torch.Tensor) -> float:
        """Return the share for gains (2,)."""
        counts = self._counts(gains)
        weights = LQR().discount ** torch.arange(len(counts), dtype=torch.float64)
        return float((weights * (counts >= _ROWS_NEEDED)).sum() / weights.sum())

    def reaches(self, gains: torch.Tensor) -> bool:
        """Return whether the first action under gains (2,) has a row's worth of rows or more."""
        return float(self._counts(gains)[0]) >= 1.0

    def _counts(self, gains: torch.Tensor) -> torch.Tensor:
        """Return the sum of the kernels of all rows at every visit, shape (T,)."""
        states = self._path(gains)
        log_kernels = _log_kernel(states, self._data.states, self._h.states)
        log_kernels += _log_kernel(states * gains, self._data.actions, self._h.actions)
        return log_kernels.exp().sum(dim=1)

    def _path(self, gains: torch.Tensor) -> torch.Tensor:
        """Return the states (T, 2) whose steps stay in the working range, at least the start."""
        state, path = LQR().initial(1), []
        for _ in range(_PATH):
            path.append(state)
            state = torch.cat([state, state * gains], dim=1) @ self._plant
            if float(state.abs().max()) > WORKING_RANGE:
                path = path[:-1] or path
                break
        return torch.cat(path)


def _log_kernel(at: torch.Tensor, rows: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Return log-kernels (T, n)."""
    return -0.5 * ((at[:, None] - rows) / h).square().sum(dim=2)
