"""Nearest neighbours: exact by a kd-tree or by brute force, or approximate and checked by ψ-mass."""

from nopg.neighbors._choice import neighbor_search
from nopg.neighbors._faiss import FaissIndex
from nopg.neighbors._search import NeighborSearch

__all__ = ["FaissIndex", "NeighborSearch", "neighbor_search"]
