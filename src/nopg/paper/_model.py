"""The paper's transition model, Nadaraya-Watson regression (`definition:npbe`).

    ε_j(s, a) = w_j ψ(s, s_j) φ(a, a_j) / (β + Σ_k w_k ψ(s, s_k) φ(a, a_k)),    m = β / (β + Σ …)

ψ and φ are Gaussian kernels of peak 1. With β = 0, the paper's choice, the weights always sum to 1, and a
query far from all data takes the value of the nearest sample. With β > 0 the mass m goes to an unknown state,
and β is a number of samples. w_j is the number of transitions that row j stands for, by default 1.

Samples with next to no weight are left out: ψ does not depend on the policy, so the candidates of each state
are found once. What the others could weigh, Σwψφ ≤ Σwψ, is bounded; a state that loses too much of its weight
under the actions of a policy gets other candidates, near in state and action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.special import expit

from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.paper._config import Bandwidths, PaperModelConfig

# A sample is a candidate if ψ is at least this share of the largest.
_NEGLIGIBLE = 1e-5
# The others are counted up to these squared distances beyond the first of them.
_SHELLS = (2.0, 5.0, 9.0, 14.0, 22.0)
# Up to this many samples all are candidates.
_ALL_UP_TO = 200
# At most this many candidates of a state; what the others weigh is still bounded.
_MOST = 1_024
# A state that loses more than this share of its weights is searched again, among this many samples.
_MOST_LOST, _NEAR_IN_ACTION = 1e-3, 256
_ROWS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class Candidates:
    """Samples that may have weight at m states, as the rows of a sparse matrix."""

    first: IntArray  # Where each row begins, shape (m + 1,)
    samples: IntArray  # Numbers of the samples
    rows: IntArray  # Numbers of the rows
    actions: FloatArray  # Actions of the samples in bandwidths, shape (d_a, k)
    log_kernel: FloatArray  # log wψ, or log wψφ where they were found for given actions
    log_dropped: FloatArray  # Log of a bound on Σ over all other samples, shape (m,)


class Weights:
    """ε of m states under L actions each.

    Attributes:
        each: ε under each of the L actions, matrices (m, n).
        mean: Their mean over the actions, (m, n): the mean of ratios, not the ratio of means.
        unknown: m under each action, shape (L, m).
        lost: Bound on the share that the samples left out would have, shape (L, m).
    """

    def __init__(self, each: list[sparse.csr_array], unknown: FloatArray, lost: FloatArray) -> None:
        self.each, self.unknown, self.lost = each, unknown, lost
        self.mean = each[0] if len(each) == 1 else (sum(each[1:], start=each[0]) / len(each)).tocsr()


class States:
    """States whose weights are asked for, with their candidates."""

    def __init__(self, model: PaperModel, features: torch.Tensor) -> None:
        self.model, self.features = model, features
        self._places = features.numpy() / model.widths
        wrong = ~np.isfinite(np.square(self._places).sum(axis=1))
        if len(features) == 0 or wrong.any():
            raise ArgumentError(
                f"{int(wrong.sum())} of {len(features)} query states are NaN, infinite or over 1e150 "
                "bandwidths from the origin; give at least one state, and check the states and the bandwidths"
            )
        self.candidates = model.near(self._places)

    def __len__(self) -> int:
        return len(self.features)

    def weights(self, actions: torch.Tensor) -> Weights:
        """Return ε under actions (L, m, d_a)."""
        parts = [self._under(action) for action in self.model.scale_actions(actions.detach().numpy())]
        each, unknown, lost = zip(*parts, strict=True)
        return Weights(list(each), np.stack(unknown), np.stack(lost))

    def action_gradient(
        self, actions: torch.Tensor, weights: Weights, x: FloatArray, unknown_value: float
    ) -> FloatArray:
        """Return ∂V/∂a = Σ_j ε_j (x_j − V)(a_j − a)/h² for node values x (n,), shape (L, m, d_a)."""
        # One product gives Σεx, Σεa and Σεxa; with centred values no digits are lost.
        model, center = self.model, x.mean()
        x_c, v_c, a_n = (x - center)[:, None], unknown_value - center, model.actions
        columns = np.hstack([x_c, a_n, x_c * a_n])
        gradient = np.empty(actions.shape)
        for sample, action in enumerate(model.scale_actions(actions.detach().numpy())):
            m = weights.unknown[sample][:, None]
            eps_x, eps_a, eps_xa = np.split(weights.each[sample] @ columns, [1, 1 + a_n.shape[1]], axis=1)
            V = eps_x + m * v_c
            gradient[sample] = eps_xa - V * eps_a - action * (eps_x - V * (1.0 - m))
        gradient /= model.action_widths * len(actions)
        return gradient

    def _under(self, action: FloatArray) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
        """Return ε, m and the lost share under one action (m, d_a) of each state, in bandwidths."""
        model, near = self.model, self.candidates
        log_kernel = near.log_kernel.copy()
        for column, given in zip(near.actions, action.T, strict=True):
            apart = column - given[near.rows]
            apart *= apart
            apart *= 0.5
            log_kernel -= apart
        eps, unknown, lost = model.normalized(near, log_kernel)
        again = np.flatnonzero(lost > _MOST_LOST)
        if len(again) == 0:
            return eps, unknown, lost
        # The rows that lose too much, once more with the samples near in state and action.
        found = model.near_in_action(np.hstack([self._places[again], action[again]]))
        others, unknown[again], lost[again] = model.normalized(found, found.log_kernel)
        row = np.arange(len(action))
        row[again] = len(action) + np.arange(len(again))
        return sparse.vstack([eps, others], format="csr")[row], unknown, lost


class PaperModel:
    """The samples, their kernels, and the states that they lead to.

    Args:
        data: The transitions.
        bandwidths: Of ψ and φ; a next state stands for itself, as with the paper's N_ϕ = 1.
        prior_mass: β.

    Attributes:
        next_states: s′ of all samples, as features.
    """

    Config = PaperModelConfig

    def __init__(self, data: Transitions, bandwidths: Bandwidths, *, prior_mass: float = 0.0) -> None:
        bandwidths.check_columns(data.schema)
        self.data, self.bandwidths, self.prior_mass = data, bandwidths, prior_mass
        self.widths, self.action_widths = bandwidths.states.numpy(), bandwidths.actions.numpy()
        # Actions enter the gradient as products; centred actions lose no digits.
        self._origin = data.actions.mean(dim=0).numpy()
        self.actions = self.scale_actions(data.actions.numpy())
        if not np.isfinite(np.square(self.actions).sum()):
            raise ArgumentError(
                f"bandwidths.actions is {bandwidths.actions.tolist()}: the actions lie over 1e150 bandwidths "
                "apart, beyond what numbers can hold; give a wider one"
            )
        self.rewards = data.rewards.numpy()
        self.continues = 1.0 - data.terminated.numpy()
        self._log_weights = None if data.weights is None else data.weights.log().numpy()
        self._places = data.features.numpy() / self.widths
        self._tree = cKDTree(self._places)
        self.next_states = States(self, data.next_features)

    def __len__(self) -> int:
        return len(self.data)

    def at(self, features: torch.Tensor) -> States:
        """Return state features (m, d_f) with their candidates."""
        return States(self, features.detach().to("cpu", torch.float64))

    def scale_actions(self, actions: FloatArray) -> FloatArray:
        """Return actions (…, d_a), centred, in bandwidths."""
        scaled: FloatArray = (actions - self._origin) / self.action_widths
        return scaled

    def transition_matrix(self, weights: sparse.csr_array) -> sparse.csr_array:
        """Return P (n, n) from ε at the next states, without what follows a terminal."""
        ends = bool((self.continues == 0.0).any())
        return (sparse.diags_array(self.continues) @ weights).tocsr() if ends else weights

    def default_unknown_value(self, discount: float) -> float:
        """Return the lowest reward for ever, or once if the task can end and that is lower."""
        worst = float(self.rewards.min())
        for_ever = worst / (1.0 - discount)
        return min(worst, for_ever) if bool(self.data.terminated.any()) else for_ever

    def near(self, places: FloatArray) -> Candidates:
        """Return the candidates at places (m, d_f), in bandwidths: by ψ alone."""
        n = len(self)
        if n <= _ALL_UP_TO:
            samples = np.tile(np.arange(n), len(places))
            squared = np.square(places[:, None] - self._places).sum(axis=2).ravel()
            first = np.arange(0, len(samples) + 1, n)
            return self._found(first, samples, squared, np.full(len(places), -np.inf))
        width = -2.0 * math.log(_NEGLIGIBLE)
        parts = []
        for start in range(0, len(places), _ROWS_AT_ONCE):
            some = places[start : start + _ROWS_AT_ONCE]
            limit = np.square(self._tree.query(some)[0]) + width
            count = self._tree.query_ball_point(some, np.sqrt(limit), return_length=True)
            k = min(int(count.max()) + 1, _MOST, n)
            distances, samples = self._tree.query(some, k=k)
            squared = np.square(distances)
            kept = squared <= limit[:, None]
            kept[:, -1] &= k == n  # the last one tells how far the first sample left out is at least
            edge, number = np.minimum(squared[:, -1], limit), kept.sum(axis=1)
            parts.append((number, samples[kept], squared[kept], self._log_mass_beyond(some, edge, number)))
        counts, samples, squared, log_dropped = (np.concatenate(part) for part in zip(*parts, strict=True))
        first = np.concatenate([[0], np.cumsum(counts)])
        return self._found(first, samples, squared, log_dropped)

    def near_in_action(self, places: FloatArray) -> Candidates:
        """Return the candidates at states and actions (m, d_f + d_a), in bandwidths: by ψφ."""
        k = min(_NEAR_IN_ACTION + 1, len(self))
        distances, samples = self._with_actions.query(places, k=k)
        squared, edge = np.square(distances), np.square(distances[:, -1])
        if k < len(self):
            samples, squared = samples[:, :-1], squared[:, :-1]
        counts = np.full(len(places), squared.shape[1])
        first = np.concatenate([[0], np.cumsum(counts)])
        with np.errstate(divide="ignore"):
            log_dropped = np.log(len(self) - counts) - 0.5 * edge
        return self._found(first, samples.ravel(), squared.ravel(), log_dropped)

    def normalized(
        self, near: Candidates, log_kernel: FloatArray
    ) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
        """Return ε, m and the lost share from log wψφ of candidates."""
        starts = near.first[:-1]
        highest = np.maximum.reduceat(log_kernel, starts)
        if wrong := int((~np.isfinite(highest)).sum()):
            raise ArgumentError(
                f"{wrong} of {len(highest)} actions are NaN, infinite or over 1e150 bandwidths away from the "
                "data; check the parameters of the policy"
            )
        values = log_kernel - highest[near.rows]
        np.exp(values, out=values)
        total = np.add.reduceat(values, starts)
        log_mass = highest + np.log(total)
        log_beta = math.log(self.prior_mass) if self.prior_mass > 0 else -np.inf
        # At least exp(−300) of a query is known: negligible, but its square does not underflow.
        log_odds = np.maximum(log_mass - log_beta, -300.0)
        values *= (expit(log_odds) / total)[near.rows]
        eps = sparse.csr_array((values, near.samples, near.first), shape=(len(starts), len(self)))
        return eps, expit(-log_odds), expit(near.log_dropped - np.logaddexp(log_mass, log_beta))

    @cached_property
    def _with_actions(self) -> cKDTree:
        return cKDTree(np.hstack([self._places, self.actions]))

    def _found(
        self, first: IntArray, samples: IntArray, squared: FloatArray, log_dropped: FloatArray
    ) -> Candidates:
        log_kernel = -0.5 * squared
        if self._log_weights is not None:
            log_kernel += self._log_weights[samples]
            log_dropped = log_dropped + self._log_weights.max()
        index = np.int32 if len(samples) < np.iinfo(np.int32).max else np.int64
        first, samples = first.astype(index), samples.astype(index)
        rows: IntArray = np.repeat(np.arange(len(first) - 1, dtype=index), np.diff(first))
        actions: FloatArray = np.ascontiguousarray(self.actions[samples].T)
        return Candidates(first, samples, rows, actions, log_kernel, log_dropped)

    def _log_mass_beyond(self, places: FloatArray, edge: FloatArray, kept: IntArray) -> FloatArray:
        """Return the log of a bound on Σψ of the samples left out, none of them nearer than the edge.

        Those in each shell around a place weigh no more than at its inner radius.
        """
        inner, within, terms = edge, kept, []
        for width in _SHELLS:
            outer = edge + width
            counted = self._tree.query_ball_point(places, np.sqrt(outer), return_length=True)
            counted = np.maximum(counted, within)
            terms.append((counted - within) * np.exp(0.5 * (edge - inner)))
            inner, within = outer, counted
        terms.append((len(self) - within) * np.exp(0.5 * (edge - inner)))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.sum(terms, axis=0)) - 0.5 * edge)
