"""A sequential test of many faults at once, whose rate of false alarms is bounded."""

from __future__ import annotations

import numpy as np

from nopg._typing import BoolArray, FloatArray

# Sizes of faults to bet on: offsets in units of an ordinary error, gains relative, sensors in standard
# deviations of the logged state. Each with both signs.
_OFFSETS, _GAINS, _SENSORS = (0.5, 1.5), (0.15, 0.5), (0.05, 0.25)
# Share that a bet on larger errors, whatever their sign, sets on the rank.
_NOISE_BETS = (0.3, 0.8)
# A shift of δ moves the mean rank of a normal error by δ/√π; its variance is 1/3: the best bet is 3δ/√π.
_BET_PER_SHIFT = 3.0 / np.sqrt(np.pi)
_LARGEST_BET = 0.9


class Detector:
    """Shiryaev-Roberts statistics of bets on faults, and their mean.

    Under no change the factor eₜ = 1 + Σₖ gₖρₖ of a bet has mean ≤ 1 given the past: ρₖ in ±1 is the rank of
    the error of column k, gₖ the bet, set before the error is known, Σ|gₖ| ≤ 0.9. Rₜ = (1 + Rₜ₋₁)eₜ sums the
    products of factors since every possible change. E Rₜ ≤ t, for one bet and for the mean over all bets, so
    by Doob's inequality the mean reaches c within n steps with probability at most n/c.

    Args:
        columns: c, number of tested columns.
        actions: Number of actions.
        units: Standard deviation of each state column in the log, shape (d_s,).
    """

    def __init__(self, columns: int, actions: int, units: FloatArray) -> None:
        families = [_OFFSETS] * columns + [_GAINS] * actions + [_SENSORS] * len(units)
        unit = np.concatenate([np.ones(columns + actions), units])
        bets = [
            (family, sign * size * unit[family])
            for family, sizes in enumerate(families)
            for size in sizes
            for sign in (1, -1)
        ]
        self._family = np.array([family for family, _ in bets])
        self._size = np.array([size for _, size in bets])
        self._noise = [(k, share) for k in range(columns) for share in _NOISE_BETS]
        count = len(bets) + len(self._noise)
        # Families weigh the same, whatever the number of their bets.
        counts = [4] * len(bets) + [len(_NOISE_BETS)] * len(self._noise)
        self._log_weight = -np.log(counts) - np.log(len(families) + columns)
        self.log_r = np.full(count, -np.inf)
        self._sums, self._since = np.zeros(count), np.zeros(count, dtype=int)
        self.step = 0

    def factors(
        self,
        shifts: FloatArray,
        allowance: FloatArray,
        ranks: tuple[FloatArray, FloatArray, FloatArray],
        counted: BoolArray,
    ) -> FloatArray:
        """Return log eₜ of all bets, shape (m, bets); 0 for rows that are not `counted`, (m,).

        Faults of size 1 cause the errors `shifts`, (m, families, c); a mean error up to the `allowance`,
        (m, c), is no fault; `ranks` are those of errors upwards, downwards, and of their size, each (m, c).
        """
        up, down, size = ranks
        wanted = shifts[:, self._family] * self._size[:, None]
        g = _BET_PER_SHIFT * np.sign(wanted) * np.maximum(np.abs(wanted) - allowance[:, None], 0.0)
        g *= np.minimum(1.0, _LARGEST_BET / np.maximum(np.abs(g).sum(axis=2, keepdims=True), 1e-300))
        of_shift = (g * np.where(g > 0, up[:, None], down[:, None])).sum(axis=2)
        of_noise = np.column_stack([share * size[:, k] for k, share in self._noise])
        gain = np.concatenate([of_shift, of_noise], axis=1)
        return np.asarray(np.where(counted[:, None], np.log1p(gain), 0.0))

    def update(self, log_e: FloatArray) -> float:
        """Take the factors (bets,) of one step; return the log of the mean of the statistics."""
        self.step += 1
        self.log_r = np.logaddexp(0.0, self.log_r) + log_e
        begins = self._sums <= 0.0
        self._since = np.where(begins, self.step, self._since)
        self._sums = np.where(begins, 0.0, self._sums) + log_e
        return float(np.logaddexp.reduce(self.log_r + self._log_weight))

    @property
    def since(self) -> int:
        """The step, counted from 1, since which the strongest bet has won: the estimated change."""
        return int(self._since[int(np.argmax(self.log_r + self._log_weight))])
