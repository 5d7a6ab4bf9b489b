"""Exact nearest neighbours."""

from nopg.neighbors._tree import NeighborTree

__all__ = ["NeighborTree"]
