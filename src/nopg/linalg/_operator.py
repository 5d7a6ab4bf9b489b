"""The transition operator P of the Bellman equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from nopg.linalg._multilevel import CellHierarchy
from nopg.linalg._resolvent import Preconditioner, SubstochasticOperator
from nopg.linalg._rows import SparseRows
from nopg.linalg._space import VectorSpace

__all__ = ["TransitionOperator"]


class TransitionOperator(SubstochasticOperator):
    """P = diag(c)·A·R: weights R of the queries, averaged over the g queries of each node, ended by c.

    Args:
        rows: R, one row per query, shape (n·g, n).
        continues: c, 0 where the node is terminal and 1 elsewhere, shape (n,).
        group_size: g, how many consecutive queries belong to one node.
        hierarchy: Gives the cells of the nodes, from which a preconditioner can be built.
        space: How vectors over the nodes are reduced.
    """

    def __init__(
        self,
        rows: SparseRows,
        continues: torch.Tensor,
        group_size: int = 1,
        *,
        hierarchy: Callable[[], CellHierarchy] | None = None,
        space: VectorSpace | None = None,
    ) -> None:
        self.rows = rows
        self.continues = continues
        self.group_size = group_size
        self.size = len(continues)
        self.space = space or VectorSpace()
        self.dtype, self.device = rows.values.dtype, rows.values.device
        self._hierarchy = hierarchy
        self._endless = bool((continues == 1).all())

    @property
    def terms_per_row(self) -> int:  # type: ignore[override]
        """The most products that are added up for one entry of Px or Pᵀx."""
        pattern = self.rows.pattern
        return max(pattern.row_length * self.group_size, pattern.longest_column) + self.group_size

    @property
    def work_per_product(self) -> int:
        """Entries that one product touches, on this rank."""
        return self.rows.pattern.num_entries

    @property
    def structure_key(self) -> object:
        """The pattern, which all policies share."""
        return self.rows.pattern

    def preconditioner(self, discount: float, visits: torch.Tensor | None) -> Preconditioner | None:
        """Return an approximate inverse of Λ from cells of the state space, if there are any."""
        if self._hierarchy is None:
            return None
        return self._hierarchy().approximate(self.rows.values, self.continues, discount, visits)

    def restored_preconditioner(
        self, discount: float, state: Mapping[str, torch.Tensor]
    ) -> Preconditioner | None:
        """Return the approximate inverse whose state this is."""
        if self._hierarchy is None:
            return None
        return self._hierarchy().restored(state, discount, self.dtype)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return Px for a vector (n,) or several columns (n, c)."""
        product = self.average(self.rows.apply(x))
        return product if self._endless else product.mul_(_columnwise(self.continues, x))

    def apply_transposed(self, x: torch.Tensor) -> torch.Tensor:
        """Return Pᵀx for a vector (n,) or several columns (n, c)."""
        weighted = x if self._endless else _columnwise(self.continues, x) * x
        if self.group_size > 1:
            weighted = weighted.repeat_interleave(self.group_size, dim=0) / self.group_size
        return self.rows.apply_transposed(weighted)

    def to_dense(self) -> torch.Tensor:
        """Return P as an (n, n) array; only for small n."""
        return self.continues[:, None] * self.average(self.rows.to_dense())

    def average(self, per_query: torch.Tensor) -> torch.Tensor:
        """Return the mean over the queries of each node: (n·g, …) becomes (n, …)."""
        if self.group_size == 1:
            return per_query
        return per_query.view(self.size, self.group_size, *per_query.shape[1:]).mean(dim=1)


def _columnwise(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return weights if x.ndim == 1 else weights[:, None]
