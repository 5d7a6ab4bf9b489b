"""The least work of an update, bare: every piece once, in torch, on the same pattern, data and dtype.

An update must ask the policy for its actions and differentiate it, turn the actions into responsibilities,
bring their values into the order of the transposed matrix, multiply once in each direction, and take one
product for the gradient. The floor is the sum of these; an update is above it by what it solves and wastes.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from nopg.bellman import PaperProblem
from nopg.policies import Policy
from nopg.policies._policy import policy_actions

__all__ = ["Floor", "FloorInputs", "best_seconds", "floor_inputs", "floor_seconds"]

_ROWS_AT_ONCE = (2_048, 8_192, 32_768)


@dataclass(frozen=True)
class FloorInputs:
    """The arrays of an update.

    Attributes:
        features: Query states as the policy sees them, shape (m, d_f).
        indices: The candidates of each query, ascending, shape (m, K), int32.
        log_psi: Their log ψ, −∞ for padding, shape (m, K).
        points: What the second kernel compares, of the samples, in its bandwidths: actions, (n, d).
        places: The same of the queries: what the policy does there, shape (L, m, d).
        prior_mass: β.
        policy: The policy, in the dtype of the floor.
        noise: Of its actions, shape (L, m, d_a), or (1, m, 0).
    """

    features: torch.Tensor
    indices: torch.Tensor
    log_psi: torch.Tensor
    points: torch.Tensor
    places: torch.Tensor
    prior_mass: float
    policy: Policy
    noise: torch.Tensor


class Floor:
    """The pieces, with everything that does not depend on the policy computed once."""

    def __init__(self, inputs: FloorInputs) -> None:
        self.inputs = inputs
        self.num_samples = len(inputs.points)
        m, K = inputs.indices.shape
        flat = inputs.indices.reshape(-1)

        # The part of the logits that stays: log ψ − ½‖aⱼ‖²; what an action adds is a·aⱼ.
        half = 0.5 * inputs.points.square().sum(dim=1)
        self.static = inputs.log_psi - half.index_select(0, flat).view(m, K)
        self.points = [column.index_select(0, flat).view(m, K) for column in inputs.points.T]

        # Where the entries of the matrix and of its transpose are among the m × K.
        present = inputs.log_psi.isfinite()
        self.positions = None if bool(present.all()) else present.view(-1).nonzero()[:, 0].int()
        columns = flat if self.positions is None else flat.index_select(0, self.positions)
        order = torch.argsort(columns, stable=True)
        self.transposed = order.int() if self.positions is None else self.positions[order]
        self.starts, self.columns = _starts(present.sum(dim=1)), columns
        self.transposed_starts = _starts(torch.bincount(columns, minlength=self.num_samples))
        self.transposed_columns = (self.transposed // K).int()

        self.weights = torch.empty_like(inputs.log_psi)
        self.unknown = inputs.log_psi.new_empty(m, 1)
        self._highest, self._total = torch.empty_like(self.unknown), torch.empty_like(self.unknown)
        self._values = inputs.log_psi.new_empty(len(columns))
        self._transposed_values = torch.empty_like(self._values)

    def differentiate_policy(self, cotangent: torch.Tensor, rows_at_once: int) -> list[torch.Tensor]:
        """Return Σ cotangent · ∂actions/∂θ: forward and backward, chunk by chunk."""
        policy, features, noise = self.inputs.policy, self.inputs.features, self.inputs.noise
        parameters = [parameter for parameter in policy.parameters() if parameter.requires_grad]
        totals = [torch.zeros_like(parameter) for parameter in parameters]
        for rows in _chunks(len(features), rows_at_once):
            actions = policy.actions(features[rows], noise[:, rows])
            for total, part in zip(
                totals, torch.autograd.grad(actions, parameters, cotangent[:, rows]), strict=True
            ):
                total.add_(part)
        return totals

    def respond(self, rows_at_once: int) -> None:
        """Write ε into `weights` and m into `unknown`: logits and softmax, in place, a pass per sample."""
        L, m, _ = self.inputs.places.shape
        buffer = self.weights if L == 1 else torch.empty_like(self.weights[:rows_at_once])
        for rows in _chunks(m, rows_at_once):
            for sample, places in enumerate(self.inputs.places):
                eps = buffer[rows] if L == 1 else buffer[: rows.stop - rows.start]
                self._respond(rows, places[rows], eps)
                if L > 1 and sample == 0:
                    torch.div(eps, L, out=self.weights[rows])
                elif L > 1:
                    self.weights[rows].add_(eps, alpha=1 / L)

    def _respond(self, rows: slice, places: torch.Tensor, eps: torch.Tensor) -> None:
        """Write ε of some rows for one action each; `unknown` keeps the mass of the last sample."""
        logits = self.static[rows]
        for k, points in enumerate(self.points):
            logits = torch.addcmul(logits, points[rows], places[:, k, None], out=eps)
        highest, total, unknown = self._highest[rows], self._total[rows], self.unknown[rows]
        torch.amax(eps, dim=1, keepdim=True, out=highest)
        eps.sub_(highest).exp_()
        torch.sum(eps, dim=1, keepdim=True, out=total)

        # β in the units of the row: the part −½‖a‖² of its logits has been left out so far.
        offset = 0.5 * places.square().sum(dim=1, keepdim=True)
        torch.exp(offset - highest, out=unknown).mul_(self.inputs.prior_mass)
        total.add_(unknown)
        eps.div_(total)
        unknown.div_(total)

    def transpose(self) -> torch.Tensor:
        """Return the values in the order of the transposed matrix."""
        flat = self.weights.view(-1)
        if self.positions is not None:
            torch.index_select(flat, 0, self.positions, out=self._values)
        return torch.index_select(flat, 0, self.transposed, out=self._transposed_values)

    def matrix(self) -> torch.Tensor:
        """Return P as compressed rows; `transpose` has to come first where there is padding."""
        values = self.weights.view(-1) if self.positions is None else self._values
        size = (len(self.weights), self.num_samples)
        return torch.sparse_csr_tensor(self.starts, self.columns, values, size, check_invariants=False)

    def transposed_matrix(self) -> torch.Tensor:
        """Return Pᵀ as compressed rows, with the values of the last `transpose`."""
        return torch.sparse_csr_tensor(
            self.transposed_starts,
            self.transposed_columns,
            self._transposed_values,
            (self.num_samples, len(self.weights)),
            check_invariants=False,
        )

    def gradient_columns(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, a and x·a, shape (n, 1 + 2 d): one product with P gives Σεx, Σεa and Σεxa."""
        a = self.inputs.points
        return torch.cat([x[:, None], a, x[:, None] * a], dim=1)

    def action_gradient(self, product: torch.Tensor, unknown_value: float) -> torch.Tensor:
        """Return ∂V/∂a in bandwidths for one sample, shape (m, d), from the product with these columns."""
        d = self.inputs.points.shape[1]
        eps_x, eps_a, eps_xa = product.split([1, d, d], dim=1)
        V = eps_x + self.unknown * unknown_value
        gradient: torch.Tensor = eps_xa - V * eps_a - self.inputs.places[0] * (eps_x - V * (1 - self.unknown))
        return gradient


def floor_inputs(problem: PaperProblem, queries: Any, policy: Policy, dtype: torch.dtype) -> FloorInputs:
    """Return the arrays of an update at the queries of a problem: its nodes, or its initial states."""
    bare, features = copy.deepcopy(policy).to(dtype), queries.features.to(dtype)
    noise = policy.noise(len(features), torch.Generator().manual_seed(0)).to(dtype)
    model, actions = problem.model, policy_actions(bare, features, noise).double()
    origin, h = model.data.actions.mean(dim=0), model.bandwidths.actions
    return FloorInputs(
        features=features,
        indices=queries.graph.indices,
        log_psi=queries.graph.log_psi.to(dtype),
        points=((model.data.actions - origin) / h).to(dtype),
        places=((actions - origin) / h).to(dtype),
        prior_mass=model.prior_mass,
        policy=bare,
        noise=noise,
    )


def floor_seconds(inputs: FloorInputs, *, rounds: int = 9) -> dict[str, float]:
    """Return the seconds of each piece, in the best chunk size, the median of several rounds.

    In a round the pieces run one after the other, as in an update: none finds its arrays in the cache
    because it has just been there itself.
    """
    floor = Floor(inputs)
    L, m, _ = inputs.places.shape
    sizes = sorted({min(size, m) for size in (*_ROWS_AT_ONCE, m)})
    x, y = torch.ones_like(inputs.points[:, 0]), torch.ones_like(inputs.log_psi[:, 0])
    actions_shape = (inputs.policy.num_action_samples, m, inputs.policy.num_actions)
    cotangent = torch.ones(actions_shape, dtype=inputs.log_psi.dtype)
    policy_size = _best_size(sizes, lambda size: floor.differentiate_policy(cotangent, size))
    block_size = _best_size(sizes, floor.respond)
    floor.transpose()
    P, P_T, columns = floor.matrix(), floor.transposed_matrix(), floor.gradient_columns(x)
    pieces: dict[str, Callable[[], object]] = {
        "policy": lambda: floor.differentiate_policy(cotangent, policy_size),
        "responsibilities": lambda: floor.respond(block_size),
        "transpose": floor.transpose,
        "gradient": lambda: P @ columns,
        "product": lambda: P @ x,
        "transposed product": lambda: P_T @ y,
    }
    seconds: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(rounds):
        for name, piece in pieces.items():
            start = time.perf_counter()
            piece()
            seconds[name].append(time.perf_counter() - start)
    typical = {name: statistics.median(each) for name, each in seconds.items()}
    return typical | {"gradient": L * typical["gradient"]}


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the wall time of the fastest of several runs, after one that is not counted."""
    work()
    fastest = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def _best_size(sizes: Iterable[int], work: Callable[[int], object]) -> int:
    return min(sizes, key=lambda size: best_seconds(lambda: work(size), 2))


def _chunks(count: int, size: int) -> Iterable[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _starts(counts: torch.Tensor) -> torch.Tensor:
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32)
    starts[1:] = counts.cumsum(0)
    return starts
