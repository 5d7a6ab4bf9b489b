"""An approximate search judged by the ψ-mass it finds: recall counts a far neighbour like a near one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Judgement", "lost_mass"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a search was found to lose on rows that were also searched exactly.

    Attributes:
        num_rows: Rows compared.
        lost: The largest share of its ψ-mass that one of them lost, in [0, 1].
        num_probes: Lists that the search takes for a query; None where it has given way to exact search.
    """

    num_rows: int
    lost: float
    num_probes: int | None

    @property
    def exact(self) -> bool:
        """Whether exact search has taken over."""
        return self.num_probes is None

    def __str__(self) -> str:
        if self.exact:
            return "exact search"
        return (
            f"{self.num_probes} lists per query; the worst of {self.num_rows} rows "
            f"lost {self.lost:.1e} of its ψ-mass"
        )


def lost_mass(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return the share of Σⱼ exp(−½dⱼ²) over the exact distances (m, k) that the found ones lack, (m,).

    Masses are relative to the nearest point of a row, so that a row far from all points counts too.

    Example:
        >>> exact, found = torch.tensor([[50.0, 50.0]]), torch.tensor([[50.0, 60.0]])
        >>> round(float(lost_mass(found, exact)), 6)
        0.5
    """
    nearest = exact[:, :1].square()
    mass, whole = ((-0.5 * (d.square() - nearest)).exp().sum(dim=1) for d in (found, exact))
    return (1.0 - mass / whole).clamp(0.0, 1.0)
