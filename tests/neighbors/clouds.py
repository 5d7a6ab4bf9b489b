"""Points to search among, and distances from the definition."""

import torch

from nopg._seeding import generator

__all__ = ["all_distances", "cloud", "recordings", "uniform"]


def cloud(count: int, dimensions: int, seed: int) -> torch.Tensor:
    return torch.randn(count, dimensions, dtype=torch.float64, generator=generator(seed, "cloud"))


def uniform(count: int, dimensions: int, seed: int) -> torch.Tensor:
    return torch.rand(count, dimensions, dtype=torch.float64, generator=generator(seed, "uniform"))


def recordings(count: int, dimensions: int, seed: int) -> torch.Tensor:
    """Correlated rows: mixtures of three columns, with a little noise on each."""
    mixing = cloud(3, dimensions, 99)
    return 10 * (cloud(count, 3, seed) @ mixing) + cloud(count, dimensions, seed + 1)


def all_distances(queries: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """All distances (m, n), from the definition."""
    return (queries[:, None, :] - points[None, :, :]).square().sum(dim=-1).sqrt()
