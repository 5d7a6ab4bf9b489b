"""Nearest neighbours: exact by a tree or by brute force, or approximate and judged by the ψ-mass found."""

from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._choice import neighbor_search
from nopg.neighbors._faiss import FaissIndex
from nopg.neighbors._search import NeighborSearch
from nopg.neighbors._tree import NeighborTree

__all__ = [
    "BruteForce",
    "FaissIndex",
    "NeighborSearch",
    "NeighborTree",
    "neighbor_search",
]
