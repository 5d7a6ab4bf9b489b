"""The transition operator P of the Bellman equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from nopg.linalg._hierarchy import CellHierarchy
from nopg.linalg._resolvent import Preconditioner, SubstochasticOperator
from nopg.linalg._rows import SparseRows


class TransitionOperator(SubstochasticOperator):
    """P = diag(c)·A·R: weights R of the queries, averaged by A over the g queries of each node.

    Args:
        rows: R, one row per query, shape (n·g, n).
        continues: c, 0 at a terminal node and 1 elsewhere, shape (n,).
        group_size: g, the number of consecutive queries of one node.
        hierarchy: Returns the cells of the nodes, from which a preconditioner can be built.
    """

    def __init__(
        self,
        rows: SparseRows,
        continues: Tensor,
        group_size: int = 1,
        *,
        hierarchy: Callable[[], CellHierarchy] | None = None,
    ) -> None:
        self.rows, self.continues, self.group_size = rows, continues, group_size
        self.size = len(continues)
        self.dtype, self.device = rows.values.dtype, rows.values.device
        self._hierarchy = hierarchy
        self._never_ends = bool((continues == 1).all())

    @property
    def terms_per_row(self) -> int:  # type: ignore[override]
        """Largest number of products in the sum of one entry of Px or Pᵀx."""
        return max(self.rows.longest_row * self.group_size, self.rows.longest_column) + self.group_size

    @property
    def work_per_product(self) -> int:
        """Entries that one product reads."""
        return self.rows.num_entries

    @property
    def structure_key(self) -> object:
        """The pattern, which is the same for all policies."""
        return self.rows.pattern

    def preconditioner(self, discount: float, visits: Tensor | None) -> Preconditioner | None:
        """Return an approximate inverse of Λ from cells of the state space, or None without cells."""
        if self._hierarchy is None:
            return None
        return self._hierarchy().approximate(self.rows.values, self.continues, discount, visits)

    def restored_preconditioner(self, discount: float, state: Mapping[str, Tensor]) -> Preconditioner | None:
        """Return the approximate inverse with this state, or None without cells."""
        if self._hierarchy is None:
            return None
        return self._hierarchy().restored(state, discount, self.dtype)

    def apply(self, x: Tensor) -> Tensor:
        """Return Px for a vector (n,) or several columns (n, c)."""
        product = self.average(self.rows.apply(x))
        return product if self._never_ends else product.mul_(_columnwise(self.continues, x))

    def apply_transposed(self, x: Tensor) -> Tensor:
        """Return Pᵀx for a vector (n,) or several columns (n, c)."""
        weighted = x if self._never_ends else _columnwise(self.continues, x) * x
        if self.group_size > 1:
            weighted = weighted.repeat_interleave(self.group_size, dim=0) / self.group_size
        return self.rows.apply_transposed(weighted)

    def to_dense(self) -> Tensor:
        """Return P as an (n, n) array; only for small n."""
        return self.continues[:, None] * self.average(self.rows.to_dense())

    def average(self, per_query: Tensor) -> Tensor:
        """Return the mean over the queries of each node: (n·g, …) becomes (n, …)."""
        if self.group_size == 1:
            return per_query
        return per_query.view(self.size, self.group_size, *per_query.shape[1:]).mean(dim=1)


def _columnwise(weights: Tensor, x: Tensor) -> Tensor:
    return weights if x.ndim == 1 else weights[:, None]
